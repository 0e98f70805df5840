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
	copies atomic.Int64 // that the inboxes knew
	known  sync.Map
}

// once says whether it is the first time that something is to fail. It outlives rollbacks.
func (f *faults) once(what string) bool {
	_, again := f.known.LoadOrStore(what, true)
	if !again {
		f.failed.Add(1)
	}
	return !again
}

// printer fails once at every fifth order.
func (f *faults) printer(order order) error {
	if order.Number%5 == 0 && f.once("printer "+order.ID) {
		return errors.New("the printer is out of labels")
	}
	return nil
}

// mistake panics once at every tenth parcel.
func (f *faults) mistake(parcel parcel) {
	if strings.HasSuffix(parcel.OrderID, "7") && f.once("mistake "+parcel.OrderID) {
		panic("a mistake in the program")
	}
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
