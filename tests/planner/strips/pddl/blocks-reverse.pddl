; A tower of six turned upside down: the top block goes to the table, the other five onto it: 12.
(define (problem reverse)
  (:domain blocks)
  (:objects a b c d e f - block)
  (:init (clear a) (on a b) (on b c) (on c d) (on d e) (on e f) (ontable f) (handempty))
  (:goal (and (on f e) (on e d) (on d c) (on c b) (on b a))))
