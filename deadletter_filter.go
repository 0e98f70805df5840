package outbox

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrSelectsNothing is returned by Requeue and Discard for a filter in which nothing is set that selects.
var ErrSelectsNothing = errors.New("outbox: DeadLetterFilter: it selects by nothing, AfterID and Limit don't; set All to mean every dead letter")

// listLimit is how many letters List gives if the filter does not say.
const listLimit = 100

// DeadLetterFilter selects dead letters. Each field that is set narrows; one that has its zero value does not.
type DeadLetterFilter struct {
	// All lets Requeue and Discard do without any of the fields below but the last two; they refuse to take every letter by
	// mistake. Together with other fields it changes nothing. List does not need it.
	All bool
	// IDs are the letters' ids in the outbox. Empty, but not nil, it selects nothing. After a reset of the outbox's sequence
	// an id may be that of two letters, both of which it selects; set UUID too.
	IDs []int64
	// UUID of the message.
	UUID string
	// Topic to which it was to be published.
	Topic string
	// Key is the ordering key. Letters without a key can't be selected by that.
	Key string
	// ErrorContains is a part of the error, as it is, in upper and lower case. No character has a special meaning.
	ErrorContains string
	// OlderThan selects those that died at least that long ago, by the database's clock.
	OlderThan time.Duration
	// AfterID selects ids above it: that of the last letter of a page gives List the next page.
	AfterID int64
	// Limit is the number of letters, those of the lowest ids. List gives 100 by default, and more only so as not to leave
	// out one that has the last one's id; Requeue and Discard have no limit by default, and don't count what goes along with
	// its key. -1 = no limit.
	Limit int
}

// Validate reports everything wrong with the fields, each problem with its field.
func (f DeadLetterFilter) Validate() error {
	var problems []error
	for _, text := range []struct{ field, value string }{
		{"UUID", f.UUID}, {"Topic", f.Topic}, {"Key", f.Key}, {"ErrorContains", f.ErrorContains},
	} {
		if problem := textProblem(text.value); problem != "" {
			problems = append(problems, fmt.Errorf("outbox: DeadLetterFilter.%s: %s", text.field, problem))
		}
	}
	if f.OlderThan < 0 {
		problems = append(problems, fmt.Errorf("outbox: DeadLetterFilter.OlderThan: must not be negative, is %s", f.OlderThan))
	}
	if f.AfterID < 0 {
		problems = append(problems, fmt.Errorf("outbox: DeadLetterFilter.AfterID: must not be negative, is %d", f.AfterID))
	}
	if f.Limit < -1 {
		problems = append(problems, fmt.Errorf("outbox: DeadLetterFilter.Limit: must be positive, 0 for the default or -1 for no limit, is %d", f.Limit))
	}
	return errors.Join(problems...)
}

// validateSelective is Validate for what changes letters.
func (f DeadLetterFilter) validateSelective() error {
	err := f.Validate()
	if !f.All && f.IDs == nil && f.UUID == "" && f.Topic == "" && f.Key == "" && f.ErrorContains == "" && f.OlderThan == 0 {
		err = errors.Join(err, ErrSelectsNothing)
	}
	return err
}

// args are the parameters that the statements share; zeroLimit is what a Limit of 0 means.
func (f DeadLetterFilter) args(zeroLimit int64) []any {
	limit := int64(f.Limit)
	switch limit {
	case 0:
		limit = zeroLimit
	case -1:
		limit = math.MaxInt64
	}
	return []any{f.IDs, f.UUID, f.Topic, f.Key, f.ErrorContains, f.OlderThan.Seconds(), f.AfterID, limit}
}
