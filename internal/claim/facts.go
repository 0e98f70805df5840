package claim

// lateScan is one look-up of a long transaction's rows in one lane.
type lateScan struct {
	lane int16
	xid  uint64
	rows int
	top  int64 // the highest id returned
}

func (p *Plan) lateScans() []lateScan {
	var scans []lateScan
	for i := range p.Rows {
		r := &p.Rows[i]
		if r.Kind != Late {
			continue
		}
		n := 0
		for n < len(scans) && (scans[n].lane != r.Lane || scans[n].xid != r.Xid) {
			n++
		}
		if n == len(scans) {
			scans = append(scans, lateScan{lane: r.Lane, xid: r.Xid})
		}
		scans[n].rows++
		scans[n].top = r.ID // rows are sorted by id
	}
	return scans
}

// facts tells of each lane what the claim's scans reached, and what it left as it was.
func (p *Plan) facts(left []bool) []LaneFacts {
	var byLane [Lanes]*LaneFacts
	var ready [Lanes]int
	var facts []LaneFacts
	order := make([]int16, 0, Lanes)
	of := func(lane int16) *LaneFacts {
		if byLane[lane] == nil {
			byLane[lane] = &LaneFacts{Lane: lane, Top: None, Left: None}
			order = append(order, lane)
		}
		return byLane[lane]
	}
	for i := range p.Rows {
		r := &p.Rows[i]
		f := of(r.Lane)
		if r.Kind == Ready {
			if ready[r.Lane]++; ready[r.Lane] >= p.allowed {
				f.Top = r.ID
			}
		}
		if r.Kind != Due && left[i] {
			f.Left = min(f.Left, r.ID)
		}
	}
	for _, s := range p.lateScans() {
		f := of(s.lane)
		settled := None
		if s.rows >= p.allowed {
			f.LateCut = true
			settled = s.top + 1
		}
		if f.Late == nil {
			f.Late = map[uint64]int64{}
		}
		f.Late[s.xid] = settled
	}
	for i := range p.Rows {
		if r := &p.Rows[i]; r.Kind == Late && left[i] {
			f := byLane[r.Lane]
			f.Late[r.Xid] = min(f.Late[r.Xid], r.ID)
		}
	}
	for _, lane := range order {
		facts = append(facts, *byLane[lane])
	}
	return facts
}
