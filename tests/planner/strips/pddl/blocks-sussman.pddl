; Sussman's anomaly: c on a; wanted a on b on c. Six steps.
(define (problem sussman)
  (:domain blocks)
  (:objects a b c - block)
  (:init (ontable a) (ontable b) (on c a) (clear c) (clear b) (handempty))
  (:goal (and (on a b) (on b c))))
