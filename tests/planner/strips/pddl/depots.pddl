; Logistics and blocks in one: hoists stack crates on pallets, trucks carry them between places.
(define (domain depots)
  (:requirements :strips :typing)
  (:types place truck hoist surface - object crate pallet - surface)
  (:predicates
    (truck-at ?t - truck ?p - place) (hoist-at ?h - hoist ?p - place) (at ?s - surface ?p - place)
    (on ?c - crate ?s - surface) (in ?c - crate ?t - truck) (lifting ?h - hoist ?c - crate)
    (free ?h - hoist) (clear ?s - surface))
  (:action drive
    :parameters (?t - truck ?from ?to - place)
    :precondition (truck-at ?t ?from)
    :effect (and (not (truck-at ?t ?from)) (truck-at ?t ?to)))
  (:action lift
    :parameters (?h - hoist ?c - crate ?s - surface ?p - place)
    :precondition (and (hoist-at ?h ?p) (free ?h) (at ?c ?p) (on ?c ?s) (clear ?c))
    :effect (and (lifting ?h ?c) (clear ?s) (not (at ?c ?p)) (not (clear ?c)) (not (free ?h))
      (not (on ?c ?s))))
  (:action lower
    :parameters (?h - hoist ?c - crate ?s - surface ?p - place)
    :precondition (and (hoist-at ?h ?p) (at ?s ?p) (clear ?s) (lifting ?h ?c))
    :effect (and (free ?h) (at ?c ?p) (on ?c ?s) (clear ?c) (not (lifting ?h ?c))
      (not (clear ?s))))
  (:action load
    :parameters (?h - hoist ?c - crate ?t - truck ?p - place)
    :precondition (and (hoist-at ?h ?p) (truck-at ?t ?p) (lifting ?h ?c))
    :effect (and (free ?h) (in ?c ?t) (not (lifting ?h ?c))))
  (:action unload
    :parameters (?h - hoist ?c - crate ?t - truck ?p - place)
    :precondition (and (hoist-at ?h ?p) (truck-at ?t ?p) (free ?h) (in ?c ?t))
    :effect (and (lifting ?h ?c) (not (free ?h)) (not (in ?c ?t)))))
