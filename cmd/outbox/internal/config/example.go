package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const exampleHead = `# Settings of the outbox command. Flags are stronger than this file, and the environment is strongest: batch_size is
# --batch-size, and OUTBOX_BATCH_SIZE; retry.initial is --retry-initial, and OUTBOX_RETRY_INITIAL. An empty variable is none.
#
# In addresses ${NAME} stands for a variable of the environment, as it is: in a URL, special characters must be escaped.
# What is commented out shows the default, or an example if there is none. "outbox config check" tells what is wrong.
`

const exampleTail = `
# Several outboxes in one process. Each has the settings above, and may have its own instead, but for those of the process.
#outboxes:
#  - name: orders
#    table: orders_outbox
#  - name: invoices
#    database: ${INVOICES_DATABASE}
#    schema: invoices
#    workers: 2
#    retry:
#      max_attempts: -1
`

var headings = map[Part]string{
	Connections: "Where from, where to.",
	Tables:      "The tables.",
	Forwarding:  "How messages are forwarded.",
	Program:     "The process.",
}

// Example is a file with every setting, explained.
func Example() string {
	var text strings.Builder
	text.WriteString(exampleHead)
	group := ""
	for i, f := range Fields {
		if i == 0 || Fields[i-1].Part != f.Part {
			fmt.Fprintf(&text, "\n# %s\n", headings[f.Part])
		}
		outer, name, nested := strings.Cut(f.Name, ".")
		mark, indent := "#", ""
		switch {
		case !nested:
			name, group = outer, ""
		case group != outer:
			group = outer
			fmt.Fprintf(&text, "\n#%s:\n", group)
			fallthrough
		default:
			indent = "  "
		}
		if f.Name == "database" || f.Name == "broker" {
			mark = ""
		}
		fmt.Fprintf(&text, "\n# %s\n%s%s%s: %s\n", f.Doc, mark, indent, name, f.yaml(cmp.Or(f.Example, f.Default)))
	}
	text.WriteString(exampleTail)
	return text.String()
}

var plain = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./:@-]*$`)

// yaml writes a value of the field so that it reads as the same.
func (f Field) yaml(value string) string {
	if (f.kind == "text" || f.kind == "URL") && !plain.MatchString(value) {
		return strconv.Quote(value)
	}
	return value
}

// String gives the settings as a file that says the same, each with where it comes from, without passwords.
func (c *Config) String() string {
	var text strings.Builder
	several := len(c.Outboxes) > 1
	for i, o := range c.Outboxes {
		fields := slices.DeleteFunc(slices.Clone(Fields), func(f Field) bool { return several && f.Part == Program })
		indent := ""
		if several {
			if i == 0 {
				c.write(&text, o, "", slices.DeleteFunc(slices.Clone(Fields), func(f Field) bool { return f.Part != Program }))
				text.WriteString("outboxes:\n")
			}
			fmt.Fprintf(&text, "  - # %s\n", o.Name)
			indent = "    "
		}
		c.write(&text, o, indent, fields)
	}
	return text.String()
}

func (c *Config) write(text *strings.Builder, o Outbox, indent string, fields []Field) {
	group := ""
	for _, f := range fields {
		value := f.shown(target{&c.Process, &o})
		if value == "" {
			continue
		}
		from := "default"
		if setting, ok := o.origins[f.Name]; ok {
			from = setting.Origin.String()
		}
		outer, name, nested := strings.Cut(f.Name, ".")
		inner := indent
		switch {
		case !nested:
			name = outer
		case group != outer:
			group = outer
			fmt.Fprintf(text, "%s%s:\n", indent, group)
			fallthrough
		default:
			inner += "  "
		}
		fmt.Fprintf(text, "%s%s: %s # %s\n", inner, name, f.yaml(value), from)
	}
}
