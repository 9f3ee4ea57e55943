; hall - kitchen - cellar. On, walk, on, walk, then off behind: 5. The attic's light is broken.
(define (problem lights-3)
  (:domain lights)
  (:objects kitchen cellar attic - room)
  (:init (next hall kitchen) (next kitchen hall) (next kitchen cellar) (next cellar kitchen)
         (next hall attic) (next attic hall)
         (dark kitchen) (dark cellar) (dark attic) (broken attic) (at hall))
  (:goal (and (at cellar) (dark kitchen) (not (dark cellar)))))
