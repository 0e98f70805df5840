package redis

import outbox "github.com/watermill-outbox/watermill-outbox"

// cutter cuts a batch into the waves that are sent one after the other, and keeps the verdicts.
//
// A pipeline is no unit: the server may refuse an entry (OOM) and take a later one. So a wave that is a pipeline has one
// message of a key. A wave that is a transaction has a run of them, as long as the topic stays the same: when the server
// refuses a command before EXEC (OOM, READONLY, NOPERM) it takes none, and what fails inside of EXEC (WRONGTYPE) is the
// stream's, and so the same for each message of that topic. When a transaction was refused, nobody says whose fault it was: the
// batch goes on without transactions.
type cutter struct {
	batch    []outbox.Outgoing
	refused  []error // what can't be sent, and why
	verdicts []error

	rest, later []int
	wave        []int
	failed      map[string]bool
	transaction bool // the wave needs one
	single      bool // one message of a key at a time
}

func newCutter(batch []outbox.Outgoing) *cutter {
	c := &cutter{batch: batch, refused: make([]error, len(batch)), verdicts: make([]error, len(batch)), failed: map[string]bool{}}
	c.rest = make([]int, len(batch))
	for i := range batch {
		c.rest[i] = i
	}
	return c
}

// next gives the positions of the next wave, none at the end.
func (c *cutter) next() []int {
	c.wave, c.later, c.transaction = nil, nil, false
	topics := map[string]string{} // of the keys in the wave
	waits := map[string]bool{}    // keys whose messages are not all in the wave
	for _, i := range c.rest {
		out := &c.batch[i]
		topic, inWave := topics[out.Key]
		switch {
		case out.Key == "" && c.refused[i] != nil:
			c.verdicts[i] = c.refused[i]
		case out.Key == "":
			c.wave = append(c.wave, i)
		case c.failed[out.Key]:
			c.verdicts[i] = outbox.ErrHeldBack
		case waits[out.Key], inWave && (c.single || c.refused[i] != nil || topic != out.Topic):
			c.later = append(c.later, i)
			waits[out.Key] = true
		case c.refused[i] != nil:
			c.verdicts[i] = c.refused[i]
			c.failed[out.Key] = true
		default:
			c.wave = append(c.wave, i)
			c.transaction = c.transaction || inWave
			topics[out.Key] = out.Topic
		}
	}
	return c.wave
}

// settle takes the verdicts of the wave.
func (c *cutter) settle(errs []error) {
	for n, err := range errs {
		i := c.wave[n]
		key := c.batch[i].Key
		switch {
		case err == nil:
		case key != "" && c.failed[key]:
			err = outbox.ErrHeldBack // it shares its predecessor's failure, and is not to be charged for it
		case key != "":
			c.failed[key] = true
		}
		c.verdicts[i] = err
	}
	c.rest = c.later
}

// alone begins again with the wave, one message of a key at a time.
func (c *cutter) alone() { c.single = true }
