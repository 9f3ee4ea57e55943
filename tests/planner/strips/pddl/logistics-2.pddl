; Both packages from the office in one city to the office in the other. The first truck loads both,
; drives, unloads both (5), the plane loads both, flies, unloads both (5), the second truck comes to the
; airport, loads both, drives, unloads both (6); the plane is in the other city and comes first (1): 17.
(define (problem logistics-2)
  (:domain logistics)
  (:objects
    k1 k2 - package  t1 t2 - truck  plane - airplane
    office1 office2 - location  airport1 airport2 - airport  c1 c2 - city)
  (:init (in-city office1 c1) (in-city airport1 c1) (in-city office2 c2) (in-city airport2 c2)
         (at k1 office1) (at k2 office1) (at t1 office1) (at t2 office2) (at plane airport2))
  (:goal (and (at k1 office2) (at k2 office2))))
