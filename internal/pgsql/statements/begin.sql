-- Never the inherited defaults: the claim needs a new snapshot for each statement, and it writes.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE
