; Two trips with two balls each: 2 x (2 picks, move, 2 drops) and one way back: 11.
(define (problem gripper-4)
  (:domain gripper)
  (:objects a b one two three four left right)
  (:init (room a) (room b) (ball one) (ball two) (ball three) (ball four) (gripper left) (gripper right)
         (at-robby a) (free left) (free right) (at one a) (at two a) (at three a) (at four a))
  (:goal (and (at one b) (at two b) (at three b) (at four b))))
