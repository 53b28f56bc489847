// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"cmp"
	"iter"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// maxRows is the maximum of containers of a part, which bounds memory to about 80 MB. Plans stay far below.
const maxRows = 100_000

// An identity has the labels of a series.
type identity struct{ namespace, workload, kind, pod, container string }

// A cell has the values of a container in an hour. CPU and memory are one more than the value, so that 0 is no value.
type cell struct {
	memory    uint64 // bytes
	request   uint64 // the memory request of an OOM-killed container in bytes; 0: not known
	cpu       uint32 // millicores
	kills     uint16
	throttled uint16 // thousandths
}

// A table has the values of a day.
type table struct {
	day  time.Time
	rows map[identity]*[hoursPerDay]cell
}

func newTable(start time.Time) *table {
	return &table{day: start, rows: map[identity]*[hoursPerDay]cell{}}
}

// add adds a series of an answer. It keeps the higher of two values, so that a series may be added twice. Values that usage.Store
// would reject are ignored, and so are series of other namespaces and with labels that are too long for Kubernetes.
func (t *table) add(q *query, s *series) error {
	id := identity{
		namespace: s.Metric["namespace"], workload: s.Metric["workload"], kind: s.Metric["workload_type"],
		pod: s.Metric["pod"], container: s.Metric["container"],
	}
	_, wanted := slices.BinarySearch(q.namespaces, id.namespace)
	if !wanted || id.container == "" || q.joined && (id.workload == "" || id.kind == "") || !q.joined && id.pod == "" {
		return nil
	}
	if len(id.workload) > maxLabel || len(id.kind) > maxLabel || len(id.pod) > maxLabel || len(id.container) > maxLabel {
		return nil
	}
	row := t.rows[id]
	if row == nil {
		if len(t.rows) >= maxRows {
			return errTooMany
		}
		row = new([hoursPerDay]cell)
		t.rows[id] = row
	}
	start := float64(t.day.Unix())
	for _, p := range s.Values {
		hour := int((p.At-start)/3600) - 1 // the value at 01:00 is that of hour 0
		if p.At > start && hour >= q.from && hour < q.to && p.Value >= 0 && !math.IsInf(p.Value, 0) {
			row[hour].set(q.measure, p.Value)
		}
	}
	return nil
}

// set sets a value, if it is higher than the present one.
func (c *cell) set(m Measure, v float64) {
	switch {
	case m == CPU && v <= usage.MaxCores:
		c.cpu = max(c.cpu, uint32(v*1000)+1) // whole millicores, like the Metrics API
	case m == Memory && v >= 1 && v <= usage.MaxBytes:
		c.memory = max(c.memory, uint64(v)+1)
	case m == KilledRequest && v >= 1 && v <= usage.MaxBytes:
		c.request = max(c.request, uint64(v))
	case m == Kills:
		c.kills = max(c.kills, uint16(min(v, math.MaxUint16)))
	case m == Throttled:
		c.throttled = max(c.throttled, uint16(min(v, 1)*1000))
	}
}

// A Part is a day of some namespaces that was read.
type Part struct {
	Gaps    []Gap    // what could not be read of it; with the last error, all that was not read
	Partial []string // warnings of the server, each once per reading, that a result may lack series
	Notes   []string // texts for the user, such as why the cache is not used

	table *table
}

// Hours yields the usage, sorted by time, and then by namespace, workload, pod and container.
func (p *Part) Hours() iter.Seq[Hour] {
	return func(yield func(Hour) bool) {
		if p.table == nil {
			return
		}
		ids := p.table.sorted("")
		for h := range hoursPerDay {
			end := p.table.day.Add(time.Duration(h+1) * time.Hour)
			for i := range ids {
				c := &p.table.rows[ids[i]][h]
				if *c == (cell{request: c.request}) {
					continue
				}
				if !yield(c.hour(&ids[i], end)) {
					return
				}
			}
		}
	}
}

func (t *table) sorted(namespace string) []identity {
	ids := make([]identity, 0, len(t.rows))
	for id := range t.rows {
		if namespace == "" || id.namespace == namespace {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b identity) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.workload, b.workload), strings.Compare(a.kind, b.kind),
			strings.Compare(a.pod, b.pod), strings.Compare(a.container, b.container))
	})
	return ids
}

func (c *cell) hour(id *identity, end time.Time) Hour {
	h := Hour{
		Namespace: id.namespace, Container: id.container, Pod: id.pod, End: end,
		Kills: int(c.kills), Throttled: float64(c.throttled) / 1000, KilledRequest: int64(c.request),
	}
	if id.workload != "" {
		h.Workload = workload(id)
		h.Pod = ""
	}
	if c.cpu > 0 {
		h.CPU = float64(c.cpu-1) / 1000
		h.Has |= cluster.Of(cluster.CPU)
	}
	if c.memory > 0 {
		h.Memory = float64(c.memory - 1)
		h.Has |= cluster.Of(cluster.Memory)
	}
	return h
}

// kinds are the kinds of the values of workload_type. Other values are the kind itself.
var kinds = map[string]cluster.Workload{
	"deployment":  {Group: "apps", Kind: "Deployment"},
	"replicaset":  {Group: "apps", Kind: "ReplicaSet"},
	"statefulset": {Group: "apps", Kind: "StatefulSet"},
	"daemonset":   {Group: "apps", Kind: "DaemonSet"},
	"cronjob":     {Group: "batch", Kind: "CronJob"},
	"job":         {Group: "batch", Kind: "Job"},
	"pod":         {Kind: "Pod"},
	"barepod":     {Kind: "Pod"},
	"staticpod":   {Kind: "Pod"},
}

// scheduled is the form of the name of a Job that a CronJob created: it ends with the scheduled time in minutes.
var scheduled = regexp.MustCompile(`^(.+)-[0-9]{8,11}$`)

// workload returns the owner of the pods. The recording rule stores Jobs instead of CronJobs.
func workload(id *identity) cluster.Workload {
	w, ok := kinds[strings.ToLower(id.kind)]
	if !ok {
		w.Kind = id.kind
	}
	w.Namespace = id.namespace
	w.Name = id.workload
	if w.Kind == "Job" {
		if m := scheduled.FindStringSubmatch(w.Name); m != nil {
			w.Kind = "CronJob"
			w.Name = m[1]
		}
	}
	return w
}
