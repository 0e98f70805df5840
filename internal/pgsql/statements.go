// Package pgsql holds the library's SQL: one file a statement, each with its reason and its plan, rendered once per
// pair of names. Nothing else in the library composes SQL.
package pgsql

import (
	"embed"
	"reflect"
	"regexp"
	"strings"
	"sync"
)

//go:embed statements/*.sql
var statementFiles embed.FS

//go:embed fragments/dead_filter.sql
var deadFilter string

// Statements are the rendered texts; the tag names the file.
type Statements struct {
	// Writing.
	Insert    string `sql:"insert"`
	InsertOne string `sql:"insert_one"`

	// The claim, in one round trip: Begin, Settings, ChooseLanes, and one of the last two.
	Begin       string `sql:"begin"`
	Settings    string `sql:"settings"`
	ChooseLanes string `sql:"choose_lanes"`
	ClaimFree   string `sql:"claim" form:"free"`   // fails when an outsider has locked a row
	ClaimAround string `sql:"claim" form:"around"` // gives such a row as not taken

	// Settling, in one round trip: those by ctid first, then those by key, which move rows.
	Delete  string `sql:"delete"`
	Retry   string `sql:"retry"`
	Park    string `sql:"park"`
	Bury    string `sql:"bury"`
	Repark  string `sql:"repark"`
	Release string `sql:"release" form:"claim"`

	// For watermill-sql subscribers; the four that settle are one text, see SettleHolding.
	Take         string `sql:"take"`
	DeleteTaken  string `sql:"delete_taken"`
	PlainPlans   string `sql:"plain_plans"`
	DeleteAcked  string `sql:"delete_acked"`
	LockReleased string `sql:"lock_released"`
	ReleaseAcked string `sql:"release" form:"acked"`
	Nothing      string `sql:"nothing"`

	// Beside the claim.
	ReadWrite  string `sql:"read_write"`
	AssignXid  string `sql:"assign_xid"`
	StuckKeys  string `sql:"stuck_keys"`
	ReadBell   string `sql:"read_bell"`
	SetBell    string `sql:"set_bell"`
	Stats      string `sql:"stats"`
	ListenBell string `sql:"listen"`
	NotifyBell string `sql:"notify"`

	// Consuming.
	Receive     string `sql:"receive" form:"parameters"`
	ReceiveText string `sql:"receive" form:"text"` // without values: see Receiving
	Prune       string `sql:"prune"`
	Database    string `sql:"database"`

	// The operator's tool for dead letters.
	DeadSettings string `sql:"dead_settings"`
	DeadList     string `sql:"dead_list" form:"filtered"`
	DeadLock     string `sql:"dead_lock" form:"filtered"`
	DeadRequeue  string `sql:"dead_requeue" form:"filtered"`
	DeadDiscard  string `sql:"dead_discard" form:"filtered"`

	// Looking at the schema, and migrating it.
	Versions     string `sql:"versions"`
	Inspect      string `sql:"inspect"`
	Privileges   string `sql:"privileges"`
	Installed    string `sql:"installed"`
	MigrateLock  string `sql:"migrate_lock"`
	CreateSchema string `sql:"create_schema"`
}

// forms are what a statement is completed with that has several (claim.sql, delete_acked.sql and receive.sql tell what for)
// or shares a part with others.
var forms = map[string]*strings.Replacer{
	"":       strings.NewReplacer(),
	"free":   strings.NewReplacer("{lock}", "FOR UPDATE NOWAIT", "{free}", "true"),
	"around": strings.NewReplacer("{lock}", "", "{free}", "f.tid IN (SELECT tid FROM unlocked)"),
	"claim":  strings.NewReplacer("{keys}", "$1"),
	"acked":  strings.NewReplacer("{keys}", "nullif(current_setting('outbox.release_keys', true), '')"),

	"parameters": strings.NewReplacer("{with}", "", "{row}", "$1::text, $2::text, $3::text"),
	"text":       strings.NewReplacer("{with}", "WITH m AS (VALUES "+noValues+") ", "{row}", "m.* FROM m"),
	"filtered":   strings.NewReplacer("{filter}", deadFilter),
}

// noValues are what ReceiveText has instead of values.
const noValues = "('', '', '')"

// Receiving is ReceiveText with values. Their place comes before any name, whatever is in those.
func (s *Statements) Receiving(consumer, handler, id string) string {
	values := "(" + literal(consumer) + ", " + literal(handler) + ", " + literal(id) + ")"
	return strings.Replace(s.ReceiveText, noValues, values, 1)
}

var comments = regexp.MustCompile(`(?m)(^|\s+)--.*$`)

// rendered has the Statements of all Names so far: rendering takes longer than many a transaction, and each makes its own
// Publisher.
var rendered sync.Map

// Render gives the statements for one table. Comments are for the reader of the files and don't travel to the server.
func Render(names Names) Statements {
	if s, ok := rendered.Load(names); ok {
		return s.(Statements) //nolint:forcetypeassert // nothing else is stored
	}
	s := render(names)
	rendered.Store(names, s)
	return s
}

func render(names Names) Statements {
	var s Statements
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		text := forms[tag.Get("form")].Replace(read(statementFiles, "statements/"+tag.Get("sql")+".sql"))
		text = strings.TrimSpace(comments.ReplaceAllString(text, ""))
		v.Field(i).SetString(names.render(text))
	}
	return s
}
