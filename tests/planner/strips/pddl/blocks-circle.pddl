; Each goal can be reached, both together cannot.
(define (problem circle)
  (:domain blocks)
  (:objects a b c - block)
  (:init (ontable a) (ontable b) (ontable c) (clear a) (clear b) (clear c) (handempty))
  (:goal (and (on a b) (on b a))))
