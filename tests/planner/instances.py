"""Random instances of classic domains in any size: (domain text, problem text).

blocks(30, seed)    logistics(3, 3, 10, seed)    gripper(20)    ferry(5, 20, seed)
hanoi(8)            depots(4, 12, seed)          the domains lie in `pddl/`
"""

from pathlib import Path
from random import Random

PDDL = Path(__file__).parent / "strips" / "pddl"


def blocks(num_blocks, seed=0):
    """From random towers to random towers."""
    random, names = Random(seed), [f"b{i}" for i in range(num_blocks)]
    start, end = (_towers(random, names, max(1, num_blocks // 8)) for _ in range(2))
    facts = ["(handempty)"]
    for tower in start:
        facts += [f"(ontable {tower[-1]})", f"(clear {tower[0]})", *_pairs("on", tower)]
    goals = [fact for tower in end for fact in _pairs("on", tower)]
    return _texts("blocks", {"block": names}, facts, goals)


def logistics(num_cities, num_places, num_packages, seed=0, num_planes=2):
    """A truck a city, whose first place is its airport; packages from anywhere to anywhere."""
    random = Random(seed)
    cities = [f"c{i}" for i in range(num_cities)]
    places = {city: [f"p{city}-{i}" for i in range(num_places)] for city in cities}
    airports = [names[0] for names in places.values()]
    anywhere = [place for names in places.values() for place in names]
    packages = [f"k{i}" for i in range(num_packages)]
    planes = [f"a{i}" for i in range(num_planes)]
    facts = [f"(in-city {place} {city})" for city in cities for place in places[city]]
    facts += [f"(at t{city} {random.choice(places[city])})" for city in cities]
    facts += [f"(at {plane} {random.choice(airports)})" for plane in planes]
    facts += [f"(at {package} {random.choice(anywhere)})" for package in packages]
    goals = [f"(at {package} {random.choice(anywhere)})" for package in packages]
    objects = {
        "truck": [f"t{city}" for city in cities],
        "airplane": planes,
        "package": packages,
        "airport": airports,
        "location": [place for place in anywhere if place not in airports],
        "city": cities,
    }
    return _texts("logistics", objects, facts, goals)


def gripper(num_balls):
    """All balls from one room to the other."""
    balls = [f"ball{i}" for i in range(num_balls)]
    facts = ["(room a)", "(room b)", "(gripper left)", "(gripper right)", "(at-robby a)"]
    facts += ["(free left)", "(free right)", *(f"(ball {ball}) (at {ball} a)" for ball in balls)]
    goals = [f"(at {ball} b)" for ball in balls]
    return _texts("gripper", {"object": ["a", "b", "left", "right", *balls]}, facts, goals)


def ferry(num_ports, num_cars, seed=0):
    """Cars from anywhere to anywhere."""
    random = Random(seed)
    ports, cars = (
        [f"{kind}{i}" for i in range(n)] for kind, n in (("p", num_ports), ("c", num_cars))
    )
    facts = ["(empty)", f"(at-ferry {random.choice(ports)})"]
    facts += [f"(at {car} {random.choice(ports)})" for car in cars]
    goals = [f"(at {car} {random.choice(ports)})" for car in cars]
    return _texts("ferry", {"car": cars, "port": ports}, facts, goals)


def hanoi(num_disks):
    """From the first of three pegs to the last: 2^n - 1 moves."""
    disks, pegs = [f"d{i}" for i in range(num_disks)], ["peg0", "peg1", "peg2"]
    facts = [f"(smaller {disk} {peg})" for disk in disks for peg in pegs]
    facts += [f"(smaller {a} {b})" for i, b in enumerate(disks) for a in disks[:i]]
    facts += ["(clear d0)", "(clear peg1)", "(clear peg2)", *_pairs("on", [*disks, "peg0"])]
    return _texts("hanoi", {"object": disks + pegs}, facts, _pairs("on", [*disks, "peg2"]))


def depots(num_places, num_crates, seed=0, num_trucks=2):
    """A hoist and two pallets a place; crates from random stacks to random stacks."""
    random = Random(seed)
    places = [f"p{i}" for i in range(num_places)]
    pallets = {f"s{place}{side}": place for place in places for side in "ab"}
    crates = [f"c{i}" for i in range(num_crates)]
    trucks = [f"t{i}" for i in range(num_trucks)]
    facts = [f"(truck-at {truck} {random.choice(places)})" for truck in trucks]
    facts += [f"(hoist-at h{place} {place}) (free h{place})" for place in places]
    start, end = (_stacks(random, crates, pallets) for _ in range(2))
    for pallet, stack in start.items():
        facts += [f"(at {pallet} {pallets[pallet]})", f"(clear {[pallet, *stack][-1]})"]
        facts += [f"(at {crate} {pallets[pallet]})" for crate in stack]
        facts += _pairs("on", [pallet, *stack][::-1])
    goals = [fact for pallet, stack in end.items() for fact in _pairs("on", [pallet, *stack][::-1])]
    objects = {
        "place": places, "truck": trucks, "hoist": [f"h{place}" for place in places],
        "crate": crates, "pallet": list(pallets),
    }  # fmt: skip
    return _texts("depots", objects, facts, goals)


def _texts(domain, objects, facts, goals):
    typed = " ".join(f"{' '.join(names)} - {kind}" for kind, names in objects.items() if names)
    problem = f"""(define (problem p) (:domain {domain})
      (:objects {typed}) (:init {" ".join(facts)}) (:goal (and {" ".join(goals)})))"""
    return (PDDL / f"{domain}.pddl").read_text(), problem


def _pairs(predicate, tower):
    """What a tower, top first, means: (on a b) (on b c)."""
    return [f"({predicate} {a} {b})" for a, b in zip(tower, tower[1:], strict=False)]


def _towers(random, names, num_towers):
    names = random.sample(names, len(names))
    cuts = sorted(random.sample(range(1, len(names)), num_towers - 1))
    return [names[a:b] for a, b in zip([0, *cuts], [*cuts, len(names)], strict=True)]


def _stacks(random, crates, pallets):
    stacks = {pallet: [] for pallet in pallets}
    for crate in random.sample(crates, len(crates)):
        stacks[random.choice(list(stacks))].append(crate)
    return stacks
