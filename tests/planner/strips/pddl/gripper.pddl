; A robot with two grippers carries balls between rooms. Untyped.
(define (domain gripper)
  (:requirements :strips)
  (:predicates (room ?r) (ball ?b) (gripper ?g) (at-robby ?r) (at ?b ?r) (free ?g) (carry ?b ?g))
  (:action move
    :parameters (?from ?to)
    :precondition (and (room ?from) (room ?to) (at-robby ?from))
    :effect (and (at-robby ?to) (not (at-robby ?from))))
  (:action pick
    :parameters (?b ?room ?g)
    :precondition (and (ball ?b) (room ?room) (gripper ?g) (at ?b ?room) (at-robby ?room) (free ?g))
    :effect (and (carry ?b ?g) (not (at ?b ?room)) (not (free ?g))))
  (:action drop
    :parameters (?b ?room ?g)
    :precondition (and (ball ?b) (room ?room) (gripper ?g) (carry ?b ?g) (at-robby ?room))
    :effect (and (at ?b ?room) (free ?g) (not (carry ?b ?g)))))
