; A ferry carries one car at a time between any two ports.
(define (domain ferry)
  (:requirements :strips :typing)
  (:types car port)
  (:predicates (at-ferry ?p - port) (at ?c - car ?p - port) (on ?c - car) (empty))
  (:action sail
    :parameters (?from ?to - port)
    :precondition (at-ferry ?from)
    :effect (and (at-ferry ?to) (not (at-ferry ?from))))
  (:action board
    :parameters (?c - car ?p - port)
    :precondition (and (at ?c ?p) (at-ferry ?p) (empty))
    :effect (and (on ?c) (not (at ?c ?p)) (not (empty))))
  (:action debark
    :parameters (?c - car ?p - port)
    :precondition (and (on ?c) (at-ferry ?p))
    :effect (and (at ?c ?p) (empty) (not (on ?c)))))
