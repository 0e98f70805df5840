package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// Field is a setting: a key of the file, a flag and an environment variable.
type Field struct {
	// Name is the key in the file; one with a dot stands in a mapping.
	Name string
	// Go is the field of outbox.ForwarderConfig, as its Validate calls it; "" = it is none of its fields.
	Go string
	// Part of the program that it belongs to.
	Part Part
	// Doc says what it does, in a sentence or two.
	Doc string
	// Default is what it is if it is not set, as one would write it; "" = nothing.
	Default string
	// Example stands in the example file, instead of the default.
	Example string
	codec
}

// Part groups the fields.
type Part int

// The parts, in the order of the example file.
const (
	Connections Part = iota
	Tables
	Forwarding
	Program // of the whole process, however many outboxes it has
)

// Flag is the field's name on the command line, without dashes.
func (f Field) Flag() string { return strings.NewReplacer("_", "-", ".", "-").Replace(f.Name) }

// Variable is the field's name in the environment.
func (f Field) Variable() string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(f.Name, ".", "_"))
}

// Kind says what a value is: text, number, time.
func (f Field) Kind() string { return f.kind }

// Switch says whether the flag needs no value.
func (f Field) Switch() bool { return f.kind == kindBool }

// Known gives the field of a name in the file.
func Known(name string) (Field, bool) {
	i := slices.IndexFunc(Fields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return Field{}, false
	}
	return Fields[i], true
}

// target is where values go.
type target struct {
	process *Process
	outbox  *Outbox
}

func (t target) forwarder() *outbox.ForwarderConfig { return &t.outbox.Forwarder }

// codec reads and writes a value.
type codec struct {
	kind   string
	secret bool // may contain a password: it is never quoted, and written without it
	set    func(t target, text string) error
	get    func(t target) string // "" if it has its zero value
}

const kindBool = "true or false"

// value is a codec for anything comparable.
func value[T comparable](kind string, at func(target) *T, read func(string) (T, error), write func(T) string) codec {
	return codec{
		kind: kind,
		set: func(t target, text string) (err error) {
			*at(t), err = read(text)
			return err
		},
		get: func(t target) string {
			var zero T
			if v := *at(t); v != zero {
				return write(v)
			}
			return ""
		},
	}
}

func words(at func(target) *string) codec {
	return value("text", at, func(s string) (string, error) { return s, nil }, func(s string) string { return s })
}

// dsn is the address of a PostgreSQL.
func dsn(at func(target) *string) codec {
	c := value("URL", at, func(s string) (string, error) { return s, checkDSN(s) }, Redacted)
	c.secret = true
	return c
}

// address is a broker's; which ones there are is not known here.
func address(at func(target) *string) codec {
	c := value("URL", at, func(s string) (string, error) { return s, nil }, Redacted)
	c.secret = true
	return c
}

func boolean(at func(target) *bool) codec {
	return value(kindBool, at, func(s string) (bool, error) {
		if s != "true" && s != "false" {
			return false, fmt.Errorf("%q must be true or false", s)
		}
		return s == "true", nil
	}, strconv.FormatBool)
}

func whole(at func(target) *int) codec {
	return value("number", at, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		return n, complain(err, s, "a whole number")
	}, strconv.Itoa)
}

func float(at func(target) *float64) codec {
	return value("number", at, func(s string) (float64, error) {
		f, err := strconv.ParseFloat(s, 64)
		return f, complain(err, s, "a number")
	}, func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) })
}

// share is a float whose 0 would be taken for the default, not for none.
func share(at func(target) *float64) codec {
	c := float(at)
	read := c.set
	c.set = func(t target, text string) error {
		if err := read(t, text); err != nil {
			return err
		}
		if *at(t) == 0 {
			return errors.New("0 would be the default; -1 is none")
		}
		return nil
	}
	return c
}

func duration(at func(target) *time.Duration) codec {
	return value("time", at, func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		return d, complain(err, s, "a time with its unit, as 500ms, 10s or 5m")
	}, func(d time.Duration) string {
		text := d.String()
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		if strings.HasSuffix(text, "h0m") {
			text = strings.TrimSuffix(text, "0m")
		}
		return text
	})
}

var sizes = []struct {
	unit  string
	bytes int
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

func size(at func(target) *int) codec {
	return value("size", at, func(s string) (int, error) {
		number, factor := s, 1
		for _, size := range sizes {
			if n, ok := strings.CutSuffix(s, size.unit); ok {
				number, factor = strings.TrimSpace(n), size.bytes
			}
		}
		n, err := strconv.Atoi(number)
		if err == nil && n*factor/factor != n {
			err = strconv.ErrRange
		}
		return n * factor, complain(err, s, "a number of bytes, as 33554432 or 32MiB")
	}, func(n int) string {
		for _, size := range sizes {
			if n%size.bytes == 0 {
				return strconv.Itoa(n/size.bytes) + size.unit
			}
		}
		return strconv.Itoa(n)
	})
}

// choice is one of some words; the first one stands for the zero value.
func choice[T comparable](at func(target) *T, values []T, names ...string) codec {
	known := strings.Join(names, " or ")
	return value("word", at, func(s string) (T, error) {
		i := slices.Index(names, s)
		if i < 0 {
			return values[0], fmt.Errorf("%q must be %s", s, known)
		}
		return values[i], nil
	}, func(v T) string { return names[slices.Index(values, v)] })
}

// complain says what a text must be.
func complain(err error, text, want string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%q must be %s", text, want)
}

// shown is the field's value, or its default, without secrets.
func (f Field) shown(t target) string { return cmp.Or(f.get(t), f.Default) }
