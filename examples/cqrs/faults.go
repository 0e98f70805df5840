package main

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
)

// faults lets things go wrong, and counts them. Your program does without.
type faults struct {
	failed atomic.Int64 // tries
	copies atomic.Int64 // that the inbox knew
	known  sync.Map
}

// power fails once at every tenth request.
func (f *faults) power(request string) error {
	if !strings.HasSuffix(request, "3") {
		return nil
	}
	if _, again := f.known.LoadOrStore(request, true); again {
		return nil
	}
	f.failed.Add(1)
	return errors.New("the power has failed")
}

// twice delivers one message in five a second time, as brokers do after a fault.
type twice struct{ message.Publisher }

func (t twice) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		if err := t.Publisher.Publish(topic, msg); err != nil {
			return err
		}
		if rand.IntN(5) == 0 {
			if err := t.Publisher.Publish(topic, msg); err != nil {
				return err
			}
		}
	}
	return nil
}
