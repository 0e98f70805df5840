// Package waves sends batches to brokers that may take a later message although they refuse an earlier one.
package waves

import (
	"context"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// Publish sends a batch in waves, each with at most one message of a key, and each after the verdicts of the one before it.
// Messages without a key are all in the first. Send is given the positions of a wave's messages in the batch, and sets
// their verdicts. Behind one that failed, the rest of its key is held back.
func Publish(ctx context.Context, batch []outbox.Outgoing, send func(ctx context.Context, wave []int, verdicts []error)) []error {
	verdicts := make([]error, len(batch))
	rest := make([]int, len(batch))
	for i := range batch {
		rest[i] = i
	}
	failed := map[string]bool{}
	for len(rest) > 0 {
		var wave, later []int
		inWave := map[string]bool{}
		for _, i := range rest {
			key := batch[i].Key
			switch {
			case failed[key]:
				verdicts[i] = outbox.ErrHeldBack
			case inWave[key]:
				later = append(later, i)
			default:
				wave = append(wave, i)
				inWave[key] = key != ""
			}
		}
		if len(wave) > 0 {
			send(ctx, wave, verdicts)
		}
		for _, i := range wave {
			if verdicts[i] != nil && batch[i].Key != "" {
				failed[batch[i].Key] = true
			}
		}
		rest = later
	}
	return verdicts
}
