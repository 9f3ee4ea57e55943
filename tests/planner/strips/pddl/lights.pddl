; Lights in a row of rooms: walk only where it is lit, switch only what is beside you. Negative
; preconditions on facts that change and on facts that do not, constants, `=` and a negative goal.
(define (domain lights)
  (:requirements :strips :typing :negative-preconditions :equality)
  (:types room)
  (:constants hall - room)
  (:predicates (next ?a ?b - room) (broken ?a - room) (dark ?a - room) (at ?a - room))
  (:action switch-on
    :parameters (?here ?a - room)
    :precondition (and (at ?here) (next ?here ?a) (dark ?a) (not (broken ?a)))
    :effect (not (dark ?a)))
  (:action switch-off
    :parameters (?here ?a - room)
    :precondition (and (at ?here) (next ?here ?a) (not (dark ?a)) (not (= ?a hall)))
    :effect (dark ?a))
  (:action walk
    :parameters (?from ?to - room)
    :precondition (and (at ?from) (next ?from ?to) (not (dark ?to)))
    :effect (and (at ?to) (not (at ?from)))))
