package pgsql

import (
	"strconv"
	"strings"
)

// SettleHolding is the text that settles the first acked rows of a batch, of which some hold back others: delete, lock the
// lanes of those, release their keys. The release must see what was committed until the locks were there, so it is a
// statement of its own; and because several in one text can't have parameters, the number stands in it. Where an
// outsider's lock cuts the release short, the next one of the key goes on, or the forwarders' sweep.
func (s *Statements) SettleHolding(acked int64) string {
	return "SELECT set_config('outbox.acked', " + literal(strconv.FormatInt(acked, 10)) + ", true);\n" +
		s.PlainPlans + ";\n" + s.DeleteAcked + ";\n" + s.LockReleased + ";\n" + s.ReleaseAcked
}

const (
	refusalHead = " BEGIN RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = "
	refusalTail = "; END "
)

// Refusal is a statement that fails with a reason of ours: the interfaces of watermill-sql v3 let an adapter return a query
// where it should return an error. One statement, or a driver could tell of the failure only after the first.
func Refusal(reason string) string {
	quote := dollar(reason)
	return "DO " + quote + refusalHead + literal(reason) + refusalTail + quote
}

// Refused gives the reason of a Refusal, for an interface that takes an error.
func Refused(query string) (reason string, refused bool) {
	query, do := strings.CutPrefix(query, "DO ")
	quote, rest, headed := strings.Cut(query, refusalHead)
	quoted, tailed := strings.CutSuffix(rest, refusalTail+quote)
	if !do || !headed || !tailed {
		return "", false
	}
	return unquoted(quoted), true
}
