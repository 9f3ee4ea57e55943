; The home of the Home Assistant Benchmark (HAB) as STRIPS.
;
; Predicates and their argument order are HAB's (Habitat 2.0 and its released domain). Three things
; are ours, because HAB's operators leave them to quantifiers or to the simulator:
; - The robot and each movable that is not held are at exactly one location. `somewhere` is a location
;   that no goal speaks of: the robot's start, a table, the floor.
; - `enclosed` marks what lies in a cab or a fridge, so that pick and place have one variant for the
;   open, one for cabs and one for fridges. All variants of pick are the one skill `pick`.
; - A door or drawer may be neither opened nor closed (stuck half-way); it can be moved to either.
;   Closing needs nothing inside, and an opened receptacle is not where its object is: the robot
;   navigates again before it picks, as the VER paper does.
(define (domain rearrange)
  (:requirements :strips :typing :negative-preconditions :equality)
  (:types
    robot location - object
    place entity - location
    movable goal receptacle - entity
    cab fridge - receptacle)
  (:constants somewhere - place)
  (:predicates
    (robot_at ?l - location ?r - robot)
    (holding ?o - movable ?r - robot)
    (not_holding ?r - robot)
    (object_at ?o - movable ?l - location)
    (in ?o - movable ?c - receptacle)
    (goal_in ?g - goal ?c - receptacle)
    (enclosed ?e - entity)
    (opened_cab ?c - cab)
    (closed_cab ?c - cab)
    (opened_fridge ?f - fridge)
    (closed_fridge ?f - fridge))

  (:action nav
    :parameters (?from - location ?to - entity ?r - robot)
    :precondition (and (robot_at ?from ?r) (not (= ?from ?to)))
    :effect (and (robot_at ?to ?r) (not (robot_at ?from ?r))))

  (:action pick
    :parameters (?o - movable ?l - location ?r - robot)
    :precondition (and (robot_at ?o ?r) (not_holding ?r) (object_at ?o ?l) (not (enclosed ?o)))
    :effect (and (holding ?o ?r) (not (not_holding ?r)) (not (object_at ?o ?l))))

  (:action pick_from_cab
    :parameters (?o - movable ?l - location ?c - cab ?r - robot)
    :precondition (and (robot_at ?o ?r) (not_holding ?r) (object_at ?o ?l) (in ?o ?c) (opened_cab ?c))
    :effect (and (holding ?o ?r) (not (not_holding ?r)) (not (object_at ?o ?l))
                 (not (in ?o ?c)) (not (enclosed ?o))))

  (:action pick_from_fridge
    :parameters (?o - movable ?l - location ?f - fridge ?r - robot)
    :precondition (and (robot_at ?o ?r) (not_holding ?r) (object_at ?o ?l) (in ?o ?f) (opened_fridge ?f))
    :effect (and (holding ?o ?r) (not (not_holding ?r)) (not (object_at ?o ?l))
                 (not (in ?o ?f)) (not (enclosed ?o))))

  (:action place
    :parameters (?o - movable ?g - goal ?r - robot)
    :precondition (and (holding ?o ?r) (robot_at ?g ?r) (not (enclosed ?g)))
    :effect (and (object_at ?o ?g) (not_holding ?r) (not (holding ?o ?r))))

  (:action place_in_cab
    :parameters (?o - movable ?g - goal ?c - cab ?r - robot)
    :precondition (and (holding ?o ?r) (robot_at ?g ?r) (goal_in ?g ?c) (opened_cab ?c))
    :effect (and (object_at ?o ?g) (in ?o ?c) (enclosed ?o) (not_holding ?r) (not (holding ?o ?r))))

  (:action place_in_fridge
    :parameters (?o - movable ?g - goal ?f - fridge ?r - robot)
    :precondition (and (holding ?o ?r) (robot_at ?g ?r) (goal_in ?g ?f) (opened_fridge ?f))
    :effect (and (object_at ?o ?g) (in ?o ?f) (enclosed ?o) (not_holding ?r) (not (holding ?o ?r))))

  (:action open_cab
    :parameters (?c - cab ?r - robot)
    :precondition (and (robot_at ?c ?r) (not_holding ?r) (not (opened_cab ?c)))
    :effect (and (opened_cab ?c) (not (closed_cab ?c))))

  (:action close_cab
    :parameters (?c - cab ?r - robot)
    :precondition (and (robot_at ?c ?r) (not_holding ?r) (not (closed_cab ?c)))
    :effect (and (closed_cab ?c) (not (opened_cab ?c))))

  (:action open_fridge
    :parameters (?f - fridge ?r - robot)
    :precondition (and (robot_at ?f ?r) (not_holding ?r) (not (opened_fridge ?f)))
    :effect (and (opened_fridge ?f) (not (closed_fridge ?f))))

  (:action close_fridge
    :parameters (?f - fridge ?r - robot)
    :precondition (and (robot_at ?f ?r) (not_holding ?r) (not (closed_fridge ?f)))
    :effect (and (closed_fridge ?f) (not (opened_fridge ?f)))))
