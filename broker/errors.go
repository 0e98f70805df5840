package broker

import (
	"errors"
	"fmt"
	"strings"
)

// Errors to compare with errors.Is.
var (
	// ErrNoGroup is returned by Subscriber without Options.Group.
	ErrNoGroup = errors.New("broker: a subscriber needs a consumer group; set Options.Group")
	// ErrPublishOnly is returned by Subscriber of a broker that nothing can be received from.
	ErrPublishOnly = errors.New("broker: this broker takes messages only")
	// ErrClosed is returned by what is used after Close.
	ErrClosed = errors.New("broker: closed")
)

// SchemeError says that no driver opens such URLs.
type SchemeError struct {
	Scheme string
	Known  []string // in order
}

// Error names the known ones.
func (e *SchemeError) Error() string {
	return fmt.Sprintf("broker: no driver for %q URLs; known are %s", e.Scheme, strings.Join(e.Known, ", "))
}

// URLError says what is wrong with a part of a URL. It never contains the URL's password, nor the URL as a whole.
type URLError struct {
	// Part is what was refused: url, host, path or the name of a parameter.
	Part string
	// Reason says what is wrong, and what would be right.
	Reason string
}

// Error gives both.
func (e *URLError) Error() string { return fmt.Sprintf("broker: %s: %s", e.Part, e.Reason) }
