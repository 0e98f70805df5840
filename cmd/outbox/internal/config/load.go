package config

import (
	"cmp"
	"context"
	"errors"
	"os"
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

// Load gives the settings, complete and valid, or a MistakesError with everything that is wrong. It opens no connection.
func Load(ctx context.Context, in Input) (*Config, error) {
	wrong := &mistakes{}
	environment := fromEnvironment(in.Environ, wrong)
	content, readable := in.file(wrong)
	layers := []Layer{environment, in.Flags}
	for _, layer := range slices.Concat([]Layer{content.top}, layers) {
		checkLayer(layer, wrong)
	}
	if !readable { // what is missing may be there
		return nil, wrong.sorted()
	}
	config := &Config{Overridden: overridden(in.Flags, environment)}
	sections := content.outboxes
	if len(sections) == 0 {
		sections = []section{{at: Origin{File: in.fileName()}}}
	}
	for _, s := range sections {
		checkLayer(s.layer, wrong)
		o := resolve(&config.Process, slices.Concat(layers, []Layer{s.layer, content.top}))
		o.at = s.at
		in.check(ctx, &o, wrong)
		config.Outboxes = append(config.Outboxes, o)
	}
	config.checkNames(wrong)
	if err := wrong.sorted(); err != nil {
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

// file reads the file, and says whether that is possible.
func (in Input) file(wrong *mistakes) (content file, readable bool) {
	name := in.fileName()
	if name == "" {
		return file{}, true
	}
	text, err := os.ReadFile(name) //nolint:gosec // the operator names the file
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		wrong.add(Origin{File: name}, "", "it can't be read: %v", err)
		return file{}, false
	}
	r := reader{name: name, lookup: in.lookup, wrong: wrong}
	return r.read(text)
}

// checkLayer reads every value, those too that a stronger layer replaces.
func checkLayer(layer Layer, wrong *mistakes) {
	for _, f := range Fields {
		setting, ok := layer[f.Name]
		if !ok {
			continue
		}
		if err := f.set(target{&Process{}, &Outbox{}}, setting.Text); err != nil {
			wrong.add(setting.Origin, keyAt(setting.Origin, f.Name), "%v", err)
		}
	}
}

// overridden tells of the flags that are not used. The values may be secrets.
func overridden(flags, environment Layer) (lines []string) {
	for _, f := range Fields {
		flag, given := flags[f.Name]
		variable, set := environment[f.Name]
		if given && set && flag.Text != variable.Text {
			lines = append(lines, flag.Origin.Name+" is not used: "+variable.Origin.Name+" is set, and is stronger")
		}
	}
	return lines
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
