package claim

// Each rule of the protocol that lies in a line of code, and what the line becomes without it. What is not here and could
// be: rules that save work only, and those that another rule repeats; their tests are scripted.

var floorFaults = []fault{
	{"floor at the highest claimed id", []edit{
		{"facts.go", `ready[r.Lane] >= p.allowed {`, `ready[r.Lane] > 0 {`},
		{"book.go", "\tif l.horizon == 0 && own != 0", `	l.floor = max(l.floor, min(seenTo, next))
	if l.horizon == 0 && own != 0`},
	}},
	{"remembered before COMMIT", []edit{
		{"sim_worker_test.go", `if s.commitFails() {`, `if w.remember(); s.commitFails() {`},
	}},
	{"long list emptied by a cut scan", []edit{
		{"book.go", `l.settleLong(v.late(lf.Lane), f.Claim, lf.Late, seenTo)`, `l.settleLong(v.late(lf.Lane), f.Claim, lf.Late, lf.Left)`},
	}},
	{"long list emptied by a cut look-up", []edit{
		{"book.go", `lf.Late, nothing)`, `lf.Late, None)`},
	}},
	{"late row left ready forgotten", []edit{
		{"facts.go", `if r.Kind != Due && left[i] {`, `if r.Kind == Ready && left[i] {`},
	}},
	{"late row left ready passed over next time", []edit{
		{"facts.go", `if r := &p.Rows[i]; r.Kind == Late && left[i] {`, `if r := &p.Rows[i]; r.Kind == Late && left[i] && false {`},
	}},
	{"xid at or above xmax taken for ended", []edit{
		{"snapshot.go", `return running, s.Xmax >= horizon`, `return running, true`},
	}},
	{"is_called ignored", []edit{
		{"sim_database_test.go", "\treturn d.last - 1\n", "\treturn d.last\n"},
	}},
	{"horizon is the claim's xmax", []edit{
		{"book.go", `l.next, l.horizon = next, own`, `l.next, l.horizon = next, snap.Xmax`},
	}},
	{"horizon is ignored", []edit{
		{"book.go", `complete && b.allLong(running, now)`, `complete || b.allLong(running, now)`},
	}},
	{"long transactions not listed", []edit{
		{"book.go", `l.long = append(l.long, long{xid: xid})`, ""},
	}},
	{"floor raised though a late look-up was cut", []edit{
		{"book.go", `lf.Late, nothing)
		return`, `lf.Late, nothing)`},
	}},
	{"floor above what a cut scan has seen", []edit{
		{"book.go", `seenTo = min(seenTo, lf.Top+1)`, `seenTo = lf.Left`},
	}},
	{"floor above what was left ready", []edit{
		{"book.go", `seenTo := lf.Left`, `seenTo := None`},
	}},
	{"untouched row not counted as left", []edit{
		{"plan.go", `				left[i] = true
				k.left`, "\t\t\t\tk.left"},
	}},
	{"late place not capped by the view's floor", []edit{
		{"book.go", `max(l.long[i].from, min(from, r.High))`, `max(l.long[i].from, from)`},
	}},
	{"running transaction struck off", []edit{
		{"book.go", `if !snap.Ended(r.Xid) {`, `if false {`},
	}},
	{"facts of another incarnation", []edit{
		{"book.go", `v.era != b.era || b.incarnation != "" && b.incarnation != f.Incarnation {`, `v.era != b.era {`},
	}},
	{"floors of another incarnation", []edit{
		{"sim_worker_test.go", `w.view.Incarnation != "" && w.view.Incarnation != w.facts.Incarnation`, `false`},
	}},
	{"floors survive a lost connection", []edit{
		{"book.go", "\tb.lanes = [Lanes]lane{}\n", ""},
	}},
	{"probe without the late rows", []edit{
		{"sim_statements_test.go", `if d.visible(l.Xid) && len(`, `if false && len(`},
	}},
	{"xid assigned after the id was drawn", []edit{
		{"sim_database_test.go", `	if *xid == 0 {
		*xid = d.assignXid()
	}
`, ""},
		{"sim_writer_test.go", `	w := &s.writers[i]
	end := aborted
`, `	w := &s.writers[i]
	end := aborted
	if w.xid == 0 {
		w.xid = s.db.assignXid()
	}
`},
		{"sim_writer_test.go", "\t\ts.db.rows[place].fate = end\n", "\t\ts.db.rows[place].fate, s.db.rows[place].xid = end, w.xid\n"},
	}},
	{"the idle pass's xid older than what it read", []edit{
		{"sim_worker_test.go", `w.facts.Own = d.assignXid()`, `w.facts.Own = w.facts.Probe.Xmax; d.end(d.assignXid())`},
	}},
	{"idle passes without an xid", []edit{
		{"book.go", `return l.horizon == 0 && l.floor <= drawn`, `return false`},
	}},
}

var orderFaults = []fault{
	{"release of all", []edit{
		{"sim_settle_test.go", `s.db.holding(key, 0, s.releaseLimit)`, `s.db.holding(key, 0, len(s.db.rows))`},
	}},
	{"release behind a locked row", []edit{
		{"sim_settle_test.go", "			return // what is behind it could not go before it\n", ""},
	}},
	{"release without the prefix rule", []edit{
		{"plan.go", `return held >= len(r.Heads) || r.Heads[held] != r.ID`, `return false`},
	}},
	{"unkeyed failure parks others", []edit{
		{"plan.go", `	keyed := r.Key != ""
	held`, `	keyed := true
	held`},
		{"plan.go", `if !ok || key == "" {`, `if !ok {`},
		{"plan.go", `		keyed := r.Key != ""
		switch`, `		keyed := true
		switch`},
	}},
	{"blocked newcomer doesn't stop its key", []edit{
		{"plan.go", `		k.parked = true
		return park`, "\t\treturn park"},
	}},
	{"newcomer not held back", []edit{
		{"plan.go", `return len(r.Heads) > 0 && r.Heads[0] < r.ID`, `return false`},
	}},
	{"locked row doesn't stop its key", []edit{
		{"plan.go", `case r.Locked, r.Over, keyed && k.left, isCut`, `case r.Locked, r.Over, isCut`},
	}},
	{"locked row settled", []edit{
		{"plan.go", `case r.Locked, r.Over, keyed && k.left, isCut`, `case r.Over, keyed && k.left, isCut`},
	}},
	{"rows behind a cut look-up", []edit{
		{"plan.go", `isCut && r.Kind != Due && r.ID > cut:`, `isCut && false && r.ID > cut:`},
	}},
	{"unacknowledged row settled", []edit{
		{"plan.go", `				left[i] = true
				k.left = keyed`, "\t\t\t\ts.Done = append(s.Done, r.TID)"},
	}},
	{"quarantine ignored", []edit{
		{"plan.go", `keyed && (r.Quarantined || k.quarantined)`, `keyed && k.quarantined`},
	}},
	{"settled row releases nothing", []edit{
		{"plan.go", `s.Done = append(s.Done, r.TID)
				if r.Holds {`, `s.Done = append(s.Done, r.TID)
				if false {`},
	}},
	{"dead letter releases nothing", []edit{
		{"plan.go", `k.quarantined, false)
				if r.Holds {`, `k.quarantined, false)
				if false {`},
	}},
	{"tail releases nothing", []edit{
		{"plan.go", `true, true)
			if r.Holds {`, `true, true)
			if false {`},
	}},
	{"owed releases forgotten", []edit{
		{"book.go", "\t\tkeys[key] = b.debts\n", "\t\tdelete(keys, key)\n"},
	}},
	{"debt struck off by an older release", []edit{
		{"book.go", `ok && debt <= v.debts {`, `ok && debt > 0 {`},
	}},
	{"debt never struck off", []edit{
		{"book.go", `ok && debt <= v.debts {`, `ok && debt == 0 {`},
	}},
	{"rows locked by outsiders skipped unseen", []edit{
		{"sim_statements_test.go", `		w.rows[i].Locked = !locked[w.rows[i].TID.BlockNumber]
	}
`, `		w.rows[i].Locked = !locked[w.rows[i].TID.BlockNumber]
	}
	w.rows = slices.DeleteFunc(w.rows, func(r Row) bool { return r.Locked })
`},
	}},
	{"claim with the snapshot that chose the lanes", []edit{
		{"sim_statements_test.go", `w.facts.Empty = append(w.facts.Empty, lane)
		}
	}
`, `w.facts.Empty = append(w.facts.Empty, lane)
		}
	}
	w.lanes = slices.Clone(w.view.Lanes)
	w.early()
`},
		{"sim_statements_test.go", "func (w *simWorker) scan() {\n", `func (w *simWorker) scan() {
	w.rows = slices.DeleteFunc(w.rows, func(r Row) bool { return !slices.Contains(w.lanes, r.Lane) })
	w.versions = slices.DeleteFunc(w.versions, func(v simVersion) bool { return !slices.Contains(w.lanes, w.sim.db.rows[v.place].lane) })
}

func (w *simWorker) early() {
`},
	}},
	{"letter quarantines its key against the policy", []edit{
		{"plan.go", `keyed && p.quarantine && !o.Alone`, `keyed && p.quarantine`},
	}},
}
