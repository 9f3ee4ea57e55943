; Packages by truck within a city and by plane between airports: three levels of types.
(define (domain logistics)
  (:requirements :strips :typing)
  (:types
    truck airplane - vehicle
    package vehicle - thing
    airport location - place
    city place thing - object)
  (:predicates (in-city ?p - place ?c - city) (at ?x - thing ?p - place) (in ?k - package ?v - vehicle))
  (:action drive
    :parameters (?t - truck ?from ?to - place ?c - city)
    :precondition (and (at ?t ?from) (in-city ?from ?c) (in-city ?to ?c))
    :effect (and (not (at ?t ?from)) (at ?t ?to)))
  (:action fly
    :parameters (?a - airplane ?from ?to - airport)
    :precondition (at ?a ?from)
    :effect (and (not (at ?a ?from)) (at ?a ?to)))
  (:action load
    :parameters (?k - package ?v - vehicle ?p - place)
    :precondition (and (at ?v ?p) (at ?k ?p))
    :effect (and (not (at ?k ?p)) (in ?k ?v)))
  (:action unload
    :parameters (?k - package ?v - vehicle ?p - place)
    :precondition (and (at ?v ?p) (in ?k ?v))
    :effect (and (not (in ?k ?v)) (at ?k ?p))))
