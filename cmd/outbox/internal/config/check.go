package config

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// check looks at an outbox as a whole.
func (in Input) check(ctx context.Context, o *Outbox, wrong *mistakes) {
	for _, need := range []struct {
		needed bool
		name   string
	}{{in.Database, "database"}, {in.Broker, "broker"}} {
		if _, given := o.origins[need.name]; need.needed && !given {
			f, _ := Known(need.name)
			wrong.add(o.at, need.name, "it is missing; set it in the file, by --%s or by %s", f.Flag(), f.Variable())
		}
	}
	for _, err := range leaves(o.Forwarder.Validate()) {
		o.refuse(err, wrong)
	}
	if setting := o.origins["broker"]; setting.Origin != (Origin{}) && in.Brokers != nil {
		opened, err := in.Brokers.Open(ctx, o.Broker, broker.Options{})
		if err == nil {
			err = opened.Close()
		}
		for _, err := range leaves(err) {
			wrong.add(setting.Origin, keyAt(setting.Origin, "broker"), "%s", strings.TrimPrefix(err.Error(), "broker: "))
		}
	}
}

// refuse tells a problem of ForwarderConfig.Validate in the words of the settings, and where that stands.
func (o Outbox) refuse(err error, wrong *mistakes) {
	text := strings.TrimPrefix(err.Error(), "outbox: ")
	name, reason, _ := strings.Cut(text, ": ")
	for _, f := range Fields {
		if f.Go != "" && f.Go == name {
			at := o.at
			if setting, ok := o.origins[f.Name]; ok {
				at = setting.Origin
			}
			wrong.add(at, keyAt(at, f.Name), "%s", inOurWords(reason))
			return
		}
	}
	wrong.add(o.at, "", "%s", inOurWords(text))
}

// inOurWords puts the settings' names for the library's.
func inOurWords(text string) string {
	for _, f := range Fields {
		if f.Go != "" {
			text = regexp.MustCompile(`\b`+regexp.QuoteMeta(f.Go)+`\b`).ReplaceAllString(text, f.Name)
		}
	}
	return text
}

// checkNames wants that no two outboxes are the same.
func (c *Config) checkNames(wrong *mistakes) {
	names, tables := map[string]Origin{}, map[string]Origin{}
	for _, o := range c.Outboxes {
		table := fmt.Sprintf("%q %s", o.Database, o.Forwarder.Schema)
		at := cmp.Or(o.origins["name"].Origin, o.at)
		if first, twice := tables[table]; twice {
			wrong.add(o.at, "", "it is the same table in the same database as that in line %d; set table or schema", first.Line)
		} else if first, twice := names[o.Name]; twice {
			wrong.add(at, "name", "the outbox in line %d has the name %q too", first.Line, o.Name)
		}
		tables[table], names[o.Name] = o.at, at
	}
}

// leaves takes joined errors apart.
func leaves(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, leaves(e)...)
	}
	return all
}
