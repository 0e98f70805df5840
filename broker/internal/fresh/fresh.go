// Package fresh gives a publish a context of its own.
package fresh

import (
	"context"
	"time"
)

// timeout bounds a Publish whose message's context has no earlier end.
const timeout = 30 * time.Second

// Context gives what a Publish runs under: the message's context, bounded; of one that is done already only the values.
// Watermill's Timeout middleware leaves a message with a context that it has ended, and PoisonQueue publishes that message:
// refusing it would hold up its topic for ever.
func Context(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}
