"""What is read from PDDL text, and the one line that says what is wrong with it."""

from pathlib import Path

import pytest

from rearrange.errors import UserError
from rearrange.planner.home.plan import plan_files
from rearrange.planner.strips.pddl import parse_domain, parse_problem

PDDL = Path(__file__).with_name("pddl")

DOMAIN = """; a comment
(define (domain d)
  (:requirements :strips :typing :negative-preconditions :equality)
  (:types b - a a c)
  (:constants k - b)
  (:predicates (p ?x - a ?y - c) (q ?x - b) (r))
  (:action act
    :parameters (?x - b ?y - c)
    :precondition (and (p ?x ?y) (not (q ?x)) (not (= ?x k)))
    :effect (and (q ?x) (not (p ?x ?y)))))
"""
PROBLEM = """(define (problem x)
  (:domain d)
  (:objects b1 b2 - b c1 - c free)
  (:init (p b1 c1) (q b2) (not (r)))
  (:goal (and (q b1) (not (p b1 c1)) (r))))
"""


def test_domain_is_read_whole():
    domain = parse_domain(DOMAIN)
    assert domain.name == "d"
    assert domain.parents == {"b": "a", "a": "object", "c": "object"}
    assert domain.constants == {"k": "b"}
    assert domain.predicates == {"p": ("a", "c"), "q": ("b",), "r": ()}
    action = domain.actions["act"]
    assert action.parameters == (("?x", "b"), ("?y", "c"))
    assert action.preconditions_pos == (("p", "?x", "?y"),)
    assert action.preconditions_neg == (("q", "?x"), ("=", "?x", "k"))
    assert action.add_effects == (("q", "?x"),)
    assert action.del_effects == (("p", "?x", "?y"),)
    assert domain.is_subtype("b", "a") and not domain.is_subtype("a", "b")


def test_problem_is_read_whole_with_its_goals_in_order():
    problem = parse_problem(PROBLEM, parse_domain(DOMAIN))
    assert problem.objects == {"k": "b", "b1": "b", "b2": "b", "c1": "c", "free": "object"}
    assert problem.init == {("p", "b1", "c1"), ("q", "b2")}
    assert problem.goal_pos == (("q", "b1"), ("r",))
    assert problem.goal_neg == (("p", "b1", "c1"),)


def test_case_and_line_ends_do_not_matter():
    assert parse_domain(DOMAIN.upper().replace("\n", "\r\n")) == parse_domain(DOMAIN)


def test_words_that_pddlpy_keeps_for_itself_are_names():
    domain = parse_domain(
        """(define (domain start) (:types number end) (:constants all - end over - number)
        (:predicates (at ?x - end) (always))
        (:action within :parameters (?duration - end) :precondition (at ?duration)
          :effect (always)))"""
    )
    assert domain.constants == {"all": "end", "over": "number"}
    assert domain.actions["within"].preconditions_pos == (("at", "?duration"),)


def test_sections_in_another_order_are_the_same():
    parts = DOMAIN.split("  (:")
    assert parts[3].startswith("constants") and parts[4].startswith("predicates")
    parts[3], parts[4] = parts[4], parts[3]
    assert parse_domain("  (:".join(parts)) == parse_domain(DOMAIN)


def test_empty_preconditions_and_effects_are_read():
    domain = parse_domain(
        """(define (domain d) (:predicates (r))
        (:action a :parameters () :effect (r))
        (:action b :parameters () :precondition () :effect ())
        (:action c :parameters () :precondition (and) :effect (and)) (:action e :parameters ()))"""
    )
    assert list(domain.actions) == ["a", "b", "c", "e"]
    assert domain.actions["a"].add_effects == (("r",),)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(p ?x ?y) (not (q", "(z ?x ?y) (not (q", "line 9: predicate z is not .*: p, q, r"),
        ("(and (p ?x ?y)", "(and (p ?x)", "line 9: p takes 2 arguments"),
        ("(and (q ?x)", "(and (q ?z)", r"line 10: \?z in \(q \?z\) is not a parameter"),
        ("(and (q ?x)", "(and (q k2)", "line 10: k2 .* is not a declared object"),
        ("(and (q ?x)", "(and (q ?y)", r"line 10: \?y .* must be a b, it is a c"),
        ("(and (q ?x)", "(and (= ?x k)", "`=` may stand in preconditions only"),
        ("?y - c)\n", "?y - e)\n", "line 8: type e is not declared; known types: object, b, a, c"),
        ("b - a a", "b - z a", "line 4: type z is not declared"),
        ("b - a a", "b - a a - b", "line 4: type .* is its own ancestor"),
        ("?x - b ?y", "?x - b ?x", r"line 8: variable \?x is declared twice"),
        ("(r))", "(r) (r))", "line 6: predicate r is declared twice"),
        (":equality", ":adl", "line 3: :adl is not supported; supported are :strips"),
        (":equality", ":nonsense", "line 3: :nonsense is not supported; supported are :strips"),
        (":equality", ":action-costs", "line 3: :action-costs is not supported"),
        (":equality", "; :adl\n :numeric-fluents", "line 4: :numeric-fluents is not supported"),
        ("(and (p", "(or (p", "line 9: disjunctions .* not supported"),
        ("(and (q", "(when (r) (q", "line 10: conditional effects"),
        ("(and (p", "(forall (?z - b) (p", "line 9: quantifiers"),
        ("(not (q ?x))", "(not (and (q ?x)))", "line 9: `not` around `and`"),
        ("- a ?y", "- (either a b) ?y", "line 6: `either` types"),
        ("(q ?x) (not", "(increase (cost) 1) (not", "line 10: numeric effects"),
        (":action act", ":durative-action act", "line 7: durative actions"),
        ("(:types", "(:functions (f)) (:types", "line 4: numeric functions"),
        ("k - b", "1k - b", "line 5: numbers are not supported"),
        ("k - b", "k|1 - b", "line 5: these characters are not PDDL: '|'"),
        (":precondition", "", "line 9"),
        (")))\n", "))\n", "line 7: this `[(]` is never closed"),
        (")))\n", "))))\n", "line 10: this `[)]` closes nothing|text after the end"),
        ("(domain d)", "(problem d)", "line 2: a domain is needed here"),
        ("define", "defin", "line 2: a domain begins with"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_domain_is_said_with_its_line(old, new, message):
    assert old in DOMAIN
    with pytest.raises(UserError, match=message) as error:
        parse_domain(DOMAIN.replace(old, new), "mine.pddl")
    assert str(error.value).startswith("mine.pddl, line ") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(:domain d)", "(:domain e)", "line 2: the problem is for domain e, .* is d"),
        ("(q b2)", "(q b3)", "line 4: b3 in .q b3. is not a declared object"),
        ("(q b2)", "(q c1)", "line 4: c1 .* must be a b, it is a c"),
        ("(q b2)", "(q free)", "line 4: free .* must be a b, it is a object"),
        ("(q b2)", "(q ?x)", "line 4"),
        ("(q b2)", "(s b2)", "line 4: predicate s is not declared"),
        ("(q b2)", "(q b2) (not (q b2))", "line 4: .* both true and false"),
        ("(q b2)", "(= b2 b1)", "`=` may stand in preconditions only"),
        ("(and (q b1)", "(and (q b1 b2)", "line 5: q takes 1 arguments"),
        ("(and (q b1)", "(and (q ?v)", "line 5: .v in .* is not"),
        ("(and (q b1)", "(and (not (q b1)) (q b1)", "line 5: .* wanted both true and false"),
        ("b1 b2 - b c1 - c", "b1 b2 - b c1 - d", "line 3: type d is not declared"),
        ("b1 b2 - b c1", "b1 b2 - b b1 c1", "line 3: b1 is declared twice, as b and as c"),
        ("(:goal (and", "(:metric minimize (and", "line 5: metrics"),
        ("(:init", "(:start", "line 4: these characters are not PDDL"),
        ("free)", "k - c)", "line 3: k is declared twice, as b and as c"),
    ],
)
def test_what_is_wrong_with_a_problem_is_said_with_its_line(old, new, message):
    assert old in PROBLEM
    with pytest.raises(UserError, match=message) as error:
        parse_problem(PROBLEM.replace(old, new), parse_domain(DOMAIN), "mine.pddl")
    assert str(error.value).startswith("mine.pddl, line ") and "\n" not in str(error.value)


def test_an_init_section_is_needed():
    text = PROBLEM.replace("(:init (p b1 c1) (q b2) (not (r)))", "")
    with pytest.raises(UserError, match="problem, line 5: .*:init"):
        parse_problem(text, parse_domain(DOMAIN))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(:goal (and (q b1) (not (p b1 c1)) (r)))", "", r"line 5: .* without .* \(:goal"),
        ("(:domain d)", "", r"line 5: .* without .* \(:domain"),
        ("(and (q b1) (not (p b1 c1)) (r))", "", r"line 5: \(:goal\) is empty"),
    ],
)
def test_a_section_that_is_missing_is_named(old, new, message):
    assert old in PROBLEM
    with pytest.raises(UserError, match=message):
        parse_problem(PROBLEM.replace(old, new), parse_domain(DOMAIN))


def test_twenty_thousand_types_are_read_or_refused_in_little_time():
    chain = " ".join(f"t{i} - t{i + 1}" for i in range(2000))
    with pytest.raises(UserError, match="more than 100 types above") as error:
        parse_domain(f"(define (domain d) (:types {chain} t2000))")
    assert len(str(error.value)) < 200
    many = " ".join(f"t{i}" for i in range(3000))
    domain = parse_domain(f"(define (domain d) (:types {many}) (:predicates (p ?x - t7)))")
    assert len(domain.parents) == 3000
    with pytest.raises(UserError, match="and 2,989 more") as error:
        parse_domain(f"(define (domain d) (:types {many}) (:predicates (p ?x - u)))")
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("parameters", "atoms", "message"),
    [(60, 0, "may have 50 parameters, this has 60"), (1, 201, "200 preconditions, this has 201")],
)
def test_actions_that_grounding_could_not_end_with_are_refused(parameters, atoms, message):
    variables = " ".join(f"?v{i}" for i in range(parameters))
    predicates = " ".join(f"(p{i} ?x)" for i in range(atoms + 1))
    needs = " ".join(f"(p{i} ?v0)" for i in range(atoms))
    with pytest.raises(UserError, match=f"line 2: .*{message}"):
        parse_domain(f"""(define (domain d) (:predicates {predicates})
          (:action a :parameters ({variables}) :precondition (and {needs}) :effect (p0 ?v0)))""")


def test_only_regular_files_are_read():
    for path in ("/dev/zero", "/dev/null"):
        with pytest.raises(UserError, match=f"{path}: cannot be read: .* regular file"):
            plan_files(path, path)


@pytest.mark.parametrize(
    "text",
    ["", "; only a comment", "\0", "\ufeff", "(", ")", "()", "hello", "(define", "(" * 100_000,
     "(define (domain d)" + "(" * 5000 + ")" * 5001, "\N{SNOWMAN}", "a" * 2_000_000],
)  # fmt: skip
def test_text_that_is_no_pddl_is_one_line(text):
    with pytest.raises(UserError) as error:
        parse_domain(text)
    assert len(str(error.value)) < 300 and "\n" not in str(error.value)


def test_files_are_named_in_errors(tmp_path):
    good = PDDL / "lights.pddl"
    broken = tmp_path / "broken.pddl"
    broken.write_text((PDDL / "lights-3.pddl").read_text().replace("(at hall)", "(at hell)"))
    with pytest.raises(UserError, match="broken.pddl, line 7: hell"):
        plan_files(good, broken)
    with pytest.raises(UserError, match="missing.pddl: cannot be read"):
        plan_files(tmp_path / "missing.pddl", good)
    with pytest.raises(UserError, match="cannot be read"):
        plan_files(tmp_path, good)
    binary = tmp_path / "binary.pddl"
    binary.write_bytes(b"(define \xff\xfe")
    with pytest.raises(UserError, match="binary.pddl: a PDDL file must be UTF-8"):
        plan_files(good, binary)


def test_pddlpy_prints_nothing(capfd):
    with pytest.raises(UserError):
        parse_domain(DOMAIN.replace("define", "(define"))
    with pytest.raises(UserError):
        parse_domain(DOMAIN.replace("?x - a", "?x - - a"))
    assert capfd.readouterr() == ("", "")
