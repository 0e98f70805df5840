package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// Input is where settings come from, and what is needed of them.
type Input struct {
	// File is the file's name; "" = that of FileVariable, or none.
	File string
	// Flags are those that were given.
	Flags Layer
	// Environ is the environment, as of os.Environ.
	Environ []string
	// Brokers tells which broker URLs can be opened.
	Brokers *broker.Mux
	// Database and Broker say what each outbox must have.
	Database, Broker bool
}

// Load gives the settings, complete and valid, or Mistakes with everything that is wrong. It opens no connection.
func Load(ctx context.Context, in Input) (*Config, error) {
	environment, mistakes := fromEnvironment(in.Environ)
	content, wrong, readable := in.file()
	mistakes = append(mistakes, wrong...)
	layers := []Layer{environment, in.Flags}
	for _, layer := range slices.Concat([]Layer{content.top}, layers) {
		checkLayer(layer, &mistakes)
	}
	if !readable { // what is missing may be there
		return nil, mistakes.sorted()
	}
	config := &Config{}
	sections := content.outboxes
	if len(sections) == 0 {
		sections = []section{{at: Origin{File: in.fileName()}}}
	}
	for _, s := range sections {
		checkLayer(s.layer, &mistakes)
		o := resolve(&config.Process, slices.Concat(layers, []Layer{s.layer, content.top}))
		o.at = s.at
		in.check(ctx, &o, &mistakes)
		config.Outboxes = append(config.Outboxes, o)
	}
	config.checkNames(&mistakes)
	if err := mistakes.sorted(); err != nil {
		return nil, err
	}
	return config, nil
}

func (in Input) lookup(variable string) (string, bool) {
	for _, entry := range in.Environ {
		if name, value, _ := strings.Cut(entry, "="); name == variable {
			return value, true
		}
	}
	return "", false
}

func (in Input) fileName() string {
	name, _ := in.lookup(FileVariable)
	return cmp.Or(in.File, name)
}

func (in Input) file() (content file, mistakes Mistakes, readable bool) {
	name := in.fileName()
	if name == "" {
		return file{}, nil, true
	}
	text, err := os.ReadFile(name) //nolint:gosec // the operator names the file
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return file{}, Mistakes{{Origin: Origin{File: name}, Text: "it can't be read: " + err.Error()}}, false
	}
	r := reader{name: name, lookup: in.lookup}
	content, readable = r.read(text)
	return content, r.mistakes, readable
}

// checkLayer reads every value, those too that a stronger layer replaces.
func checkLayer(layer Layer, mistakes *Mistakes) {
	for _, f := range Fields {
		setting, ok := layer[f.Name]
		if !ok {
			continue
		}
		if err := f.set(target{&Process{}, &Outbox{}}, setting.Text); err != nil {
			mistakes.add(setting.Origin, keyAt(setting.Origin, f.Name), "%v", err)
		}
	}
}

// keyAt leaves out a name that the origin has already.
func keyAt(at Origin, name string) string {
	if at.File == "" && at.Name != "" {
		return ""
	}
	return name
}

// resolve makes an outbox of layers, the strongest first. Values that can't be read are left out.
func resolve(process *Process, layers []Layer) Outbox {
	o := Outbox{origins: Layer{}}
	for _, f := range Fields {
		for _, layer := range layers {
			setting, ok := layer[f.Name]
			if !ok {
				continue
			}
			scratch := target{&Process{}, &Outbox{}}
			if f.set(scratch, setting.Text) == nil {
				_ = f.set(target{process, &o}, setting.Text) // the same that has just succeeded
				o.origins[f.Name] = setting
			} else {
				o.origins[f.Name] = Setting{Origin: setting.Origin}
			}
			break
		}
	}
	o.Name = cmp.Or(o.Name, unquoted(o.Forwarder.Schema.Name, o.Forwarder.Schema.Table))
	return o
}

func unquoted(schema, table string) string {
	return cmp.Or(schema, "public") + "." + cmp.Or(table, "outbox")
}

// check looks at an outbox as a whole.
func (in Input) check(ctx context.Context, o *Outbox, mistakes *Mistakes) {
	for _, need := range []struct {
		needed bool
		name   string
	}{{in.Database, "database"}, {in.Broker, "broker"}} {
		if _, given := o.origins[need.name]; need.needed && !given {
			f, _ := Known(need.name)
			mistakes.add(o.at, need.name, "it is missing; set it in the file, by --%s or by %s", f.Flag(), f.Variable())
		}
	}
	for _, err := range leaves(o.Forwarder.Validate()) {
		o.refuse(err, mistakes)
	}
	if setting := o.origins["broker"]; setting.Origin != (Origin{}) && in.Brokers != nil {
		opened, err := in.Brokers.Open(ctx, o.Broker, broker.Options{})
		if err == nil {
			err = opened.Close()
		}
		for _, err := range leaves(err) {
			mistakes.add(setting.Origin, keyAt(setting.Origin, "broker"), "%s", strings.TrimPrefix(err.Error(), "broker: "))
		}
	}
}

// refuse tells a problem of ForwarderConfig.Validate in the words of the settings, and where that stands.
func (o *Outbox) refuse(err error, mistakes *Mistakes) {
	text := strings.TrimPrefix(err.Error(), "outbox: ")
	name, reason, _ := strings.Cut(text, ": ")
	for _, f := range Fields {
		if f.Go != "" && f.Go == name {
			at := o.at
			if setting, ok := o.origins[f.Name]; ok {
				at = setting.Origin
			}
			mistakes.add(at, keyAt(at, f.Name), "%s", inOurWords(reason))
			return
		}
	}
	mistakes.add(o.at, "", "%s", inOurWords(text))
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
func (c *Config) checkNames(mistakes *Mistakes) {
	names, tables := map[string]Origin{}, map[string]Origin{}
	for _, o := range c.Outboxes {
		table := fmt.Sprintf("%q %s", o.Database, o.Forwarder.Schema)
		at := cmp.Or(o.origins["name"].Origin, o.at)
		if first, twice := tables[table]; twice {
			mistakes.add(o.at, "", "it is the same table in the same database as that in line %d; set table or schema", first.Line)
		} else if first, twice := names[o.Name]; twice {
			mistakes.add(at, "name", "the outbox in line %d has the name %q too", first.Line, o.Name)
		}
		tables[table], names[o.Name] = o.at, at
	}
}

// leaves takes joined errors apart.
func leaves(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // only what is joined at the top
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, leaves(e)...)
	}
	return all
}
