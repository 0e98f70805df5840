package command

import (
	"errors"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/config"
)

// Exit codes.
const (
	ExitOK        = 0
	ExitFailure   = 1 // it could not be done
	ExitUsage     = 2 // flags, arguments or settings are wrong; nothing was done
	ExitSchema    = 3 // the tables are missing or don't fit
	ExitUnhealthy = 4 // status found more than its limits allow
)

const exitHelp = `Exit codes:
  0  done
  1  it could not be done
  2  flags, arguments or settings are wrong; nothing was done
  3  the tables are missing or don't fit: run "outbox migrate up"
  4  "outbox status" found more than its limits allow`

// usageError is a mistake of whoever typed the command.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(text string) error { return usageError{errors.New(text)} }

// errUnhealthy is wrapped by what status finds.
var errUnhealthy = errors.New("unhealthy")

// exitCode says how the process ends; started whether a command had begun.
func exitCode(err error, started bool) int {
	var wrong usageError
	var mistakes config.MistakesError
	switch {
	case err == nil:
		return ExitOK
	case !started, errors.As(err, &wrong), errors.As(err, &mistakes):
		return ExitUsage
	case errors.Is(err, outbox.ErrSchemaVersion):
		return ExitSchema
	case errors.Is(err, errUnhealthy):
		return ExitUnhealthy
	default:
		return ExitFailure
	}
}
