// Package claim takes rows out of the outbox, decides what may be published, and settles what was.
//
// # Lanes
//
// A row's key (its uuid, when it has none) puts it into one of 64 lanes. A worker owns a lane for one transaction, by an
// advisory lock that the server releases when the transaction ends, however it ends. So one worker at a time moves the
// rows of a key. The server is the authority over everything: local time serves only to tell a long transaction from a
// short one, and what a process remembers serves only to scan less.
//
// # One claim
//
//  1. BEGIN, the planner's settings (settings.sql).
//  2. Choose lanes that have something to do, and lock them (choose_lanes.sql).
//  3. Claim: due rows, ready rows from the lane's floor up, and late rows; lock each (claim.sql). Its snapshot is younger
//     than the locks. When an outsider has locked a row, steps 1 to 3 are repeated in a form that goes around it.
//  4. Publish what the Plan allows.
//  5. Settle and COMMIT, in one round trip (Session.Settle). Then, and only then, the Book remembers.
//
// Steps 1 to 3 are one round trip; the server must not bind step 3 before step 2 has run, and with one statement after
// the other in the protocol it does not.
//
// # Order
//
// Rows are worked through by id. The id is drawn while the writer holds what orders its transactions, so ids of one key
// ascend in the order in which ordered transactions published, whatever the order of their xids.
//
// A failed row of a key HOLDS: it stays in the waiting index until its time. All later rows of the key are PARKED, which
// is holding without a time, so that blocked rows leave every scan. When a holding row is settled the next 64 are released:
// due, still holding, so that newcomers are parked behind them. A holding row is sent only if all holding rows of its key
// before it are in the same claim; order rests on ids, never on times. A row that somebody else has locked is seen, and
// stays as it is together with all later rows of its key.
//
// # Floors
//
// While somebody holds a transaction open, index entries of settled rows can't be cleaned up and pile up in front of the
// claim. A floor is an id below which nothing ready can be left, from which the claim may scan. "The highest id claimed" is
// none: a lower id may commit later. A floor is proven in two steps:
//
//   - A committed claim gives its lane a candidate: next, the highest id that had been drawn before the claim, plus one;
//     and horizon, the claim's own xid. A row below next has an xid below horizon: its transaction got its xid before it
//     drew the id, and ours was assigned after the id was drawn.
//   - A later claim of the lane, in whose snapshot no transaction below horizon runs, has seen all that can ever be below
//     next, as far as its scan went. Once it has committed, the floor rises to next, or to the end of its scan if that was
//     cut, or to the first id that it left ready. A complete and empty probe of step 2 is as good as a claim, although it
//     does not own the lane: what another worker is about to settle is still ready in its snapshot.
//
// Transactions that have been running for 200 ms don't hold a floor down, if they are at most 16: it rises, and they go
// onto the lane's list of long transactions. Once one has ended, each claim looks up its rows below the floor, by xid. It
// leaves the list by a claim that looked it up completely and left nothing ready below the present floor. If a look-up is
// cut, only late rows up to the lowest cut id go, so that none overtakes a row that was not seen.
//
// Claims are remembered in any order: every rule compares xids with the claim's own snapshots. Floors belong to one
// incarnation of server and sequence, and are forgotten with any lost connection.
//
// # What happens when
//
//	the process dies before step 5      the server rolls back; the rows are ready; what was published comes again
//	it dies after COMMIT                settled; only its floors are lost
//	the answer to COMMIT is lost        settled or not, the server knows; nothing is remembered, all floors are forgotten
//	COMMIT answers ROLLBACK             nothing happened; what was published comes again
//	the server refuses a row of step 5  the acknowledged rows, which come first, are committed; the rest is as it was
//	it hangs while publishing           the server ends the transaction (idle_in_transaction_session_timeout)
//	another server answers              the incarnation differs: the claim is rolled back, the book forgotten
//	a row is deleted by hand            it is gone; if it held its key, the sweep releases the rest
//	TRUNCATE ... RESTART IDENTITY       the sequence's file differs: as with another server
package claim
