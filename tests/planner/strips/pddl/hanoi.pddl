; Towers of Hanoi: a disk goes onto a larger disk or a peg.
(define (domain hanoi)
  (:requirements :strips)
  (:predicates (smaller ?disk ?on) (clear ?x) (on ?disk ?x))
  (:action move
    :parameters (?disk ?from ?to)
    :precondition (and (smaller ?disk ?to) (on ?disk ?from) (clear ?disk) (clear ?to))
    :effect (and (clear ?from) (on ?disk ?to) (not (on ?disk ?from)) (not (clear ?to)))))
