package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/config"
	"github.com/watermill-outbox/watermill-outbox/internal/nearest"
)

// flagOf is a setting as a flag. Its text is read together with the other settings, so that all mistakes are told at once.
type flagOf struct {
	field config.Field
	layer config.Layer
}

var _ pflag.Value = flagOf{}

func (f flagOf) String() string { return f.layer[f.field.Name].Text }

// Type is what the help calls the value; pflag knows that a bool needs none.
func (f flagOf) Type() string {
	if f.field.Switch() {
		return "bool"
	}
	return f.field.Kind()
}

// Set keeps the text.
func (f flagOf) Set(text string) error {
	f.layer[f.field.Name] = config.Setting{Text: text, Origin: config.Origin{Name: "--" + f.field.Flag()}}
	return nil
}

// settings adds flags for those settings that wanted says.
func (a *app) settings(c *cobra.Command, wanted func(config.Field) bool) {
	for _, field := range config.Fields {
		if !wanted(field) {
			continue
		}
		doc, _, _ := strings.Cut(field.Doc, ". ")
		c.Flags().Var(flagOf{field, a.flags}, field.Flag(), strings.TrimSuffix(uncapitalised(doc), "."))
		flag := c.Flags().Lookup(field.Flag())
		flag.DefValue = field.Default
		if field.Switch() {
			flag.NoOptDefVal = "true"
		}
	}
}

// uncapitalised begins with a small letter, unless the first word is a name.
func uncapitalised(s string) string {
	word, _, _ := strings.Cut(s, " ")
	if strings.ToLower(word[1:]) != word[1:] {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// named says which settings have one of the names.
func named(names ...string) func(config.Field) bool {
	return func(f config.Field) bool { return slices.Contains(names, f.Name) }
}

// selects adds the flag that chooses one of several outboxes.
func (a *app) selects(c *cobra.Command) {
	c.Flags().StringVar(&a.only, "outbox", "", "`name` of the outbox, if the file has several")
}

// load reads all settings; needs says what must be there. The connections that it speaks of are not opened.
func (a *app) load(ctx context.Context, needs config.Input) (*config.Config, error) {
	needs.File, needs.Flags, needs.Environ, needs.Brokers = a.file, a.flags, a.Environ, a.Brokers
	c, err := config.Load(ctx, needs)
	if err != nil {
		return nil, err
	}
	for _, line := range c.Overridden {
		a.warn(c.Process, line)
	}
	if a.only == "" {
		return c, nil
	}
	var names []string
	for _, o := range c.Outboxes {
		if o.Name == a.only {
			c.Outboxes = []config.Outbox{o}
			return c, nil
		}
		names = append(names, o.Name)
	}
	return nil, usage(fmt.Sprintf("--outbox: there is no outbox %q%s", a.only, nearest.Hint(a.only, names)))
}

// loadOne is load for commands that work on one outbox.
func (a *app) loadOne(ctx context.Context) (config.Outbox, error) {
	c, err := a.load(ctx, config.Input{Database: true})
	if err != nil {
		return config.Outbox{}, err
	}
	if len(c.Outboxes) > 1 {
		names := make([]string, len(c.Outboxes))
		for i, o := range c.Outboxes {
			names[i] = o.Name
		}
		return config.Outbox{}, usageError{errors.New("there are several outboxes; name one of them by --outbox: " + strings.Join(names, ", "))}
	}
	return c.Outboxes[0], nil
}
