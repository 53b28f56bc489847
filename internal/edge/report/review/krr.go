// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"encoding/csv"
	"math"
	"slices"
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	core "podfit.dev/podfit/internal/core/review"
)

// The formats krr-json and krr-csv have the names, the order and the literals of KRR's json and csv formats, so that pipelines that read
// these can read podfit's report. Amounts are cores and bytes; "?" is a recommendation that is not known. Severities follow KRR's rule,
// which is about the absolute difference. The column Severity is that of KRR without --exclude-severity.

// The literals of KRR.
const (
	krrUnset   = "unset"
	krrUnknown = "?"
)

type krrResult struct {
	Scans          []krrScan      `json:"scans"`
	Score          int            `json:"score"`
	Resources      []string       `json:"resources"`
	Description    *string        `json:"description"`
	Strategy       map[string]any `json:"strategy"`
	Errors         []any          `json:"errors"`
	ClusterSummary map[string]any `json:"clusterSummary"`
}

type krrScan struct {
	Object      krrObject         `json:"object"`
	Recommended krrSize[krrValue] `json:"recommended"`
	Severity    string            `json:"severity"`
}

type krrObject struct {
	Cluster     *string      `json:"cluster"`
	Name        string       `json:"name"`
	Container   string       `json:"container"`
	Pods        []krrPod     `json:"pods"`
	HPA         any          `json:"hpa"`
	Namespace   string       `json:"namespace"`
	Kind        string       `json:"kind"`
	Allocations krrSize[any] `json:"allocations"`
	Warnings    []string     `json:"warnings"`
}

type krrPod struct {
	Name    string `json:"name"`
	Deleted bool   `json:"deleted"`
}

type krrPair[T any] struct {
	CPU    T `json:"cpu"`
	Memory T `json:"memory"`
}

type krrSize[T any] struct {
	Requests krrPair[T]   `json:"requests"`
	Limits   krrPair[T]   `json:"limits"`
	Info     krrPair[any] `json:"info"`
}

type krrValue struct {
	Value    any    `json:"value"`
	Severity string `json:"severity"`
}

// krrSeverities are KRR's severities, the worst first.
var krrSeverities = []string{"CRITICAL", "WARNING", "OK", "GOOD", "UNKNOWN"}

func (p *printer) krrJSON() {
	settings := map[string]any{}
	if hours := p.Window.Hours(); hours > 0 {
		settings["history_duration"] = hours
	}
	out := krrResult{
		Scans: []krrScan{}, Resources: []string{"cpu", "memory"}, Errors: []any{}, ClusterSummary: map[string]any{},
		Strategy: map[string]any{"name": "podfit-" + strings.Join(p.Profiles, "-"), "settings": settings},
	}
	cost := 0.0
	for _, row := range p.ByName() {
		scan := p.krrScan(row)
		switch scan.Severity {
		case "CRITICAL":
			cost++
		case "WARNING":
			cost += 0.7
		}
		out.Scans = append(out.Scans, scan)
	}
	if n := float64(len(out.Scans)); n > 0 {
		out.Score = int((n - cost) / n * 100)
	}
	p.writeJSON(out)
}

func (c *content) krrScan(row *core.Row) krrScan {
	scan := krrScan{Object: krrObject{
		Name: row.Workload.Name, Container: row.Container, Namespace: row.Workload.Namespace, Kind: row.Workload.Kind, Warnings: []string{},
		Allocations: krrSize[any]{Requests: krrAllocated(row.Requests), Limits: krrAllocated(row.Limits)},
	}}
	if c.Cluster != "" {
		scan.Object.Cluster = &c.Cluster
	}
	scan.Object.Pods = cluster.Each(row.Places, func(p *core.Place) krrPod { return krrPod{Name: p.Pod} })
	scan.Recommended.Requests = krrRecommendedOf(row, row.Requests, row.Request)
	scan.Recommended.Limits = krrRecommendedOf(row, row.Limits, row.Limit)
	if row.Evidence.Kills > 0 {
		scan.Recommended.Requests.Memory.Severity = "CRITICAL"
		scan.Recommended.Limits.Memory.Severity = "CRITICAL"
	}
	scan.Severity = krrSeverity(scan.Recommended)
	if row.Confidence == core.None {
		scan.Recommended.Info = krrPair[any]{CPU: plain(row.Lack()), Memory: plain(row.Lack())}
		scan.Object.Warnings = append(scan.Object.Warnings, "NoPrometheusPods")
	}
	return scan
}

// krrSeverity returns the worst severity of a recommendation.
func krrSeverity(r krrSize[krrValue]) string {
	all := []string{r.Requests.CPU.Severity, r.Requests.Memory.Severity, r.Limits.CPU.Severity, r.Limits.Memory.Severity}
	return slices.MinFunc(all, func(a, b string) int {
		return cmp.Compare(slices.Index(krrSeverities, a), slices.Index(krrSeverities, b))
	})
}

func krrAllocated(r cluster.Resources) krrPair[any] {
	return krrPair[any]{CPU: krrNumber(r, cluster.CPU), Memory: krrNumber(r, cluster.Memory)}
}

// krrNumber returns cores or bytes, nil if the amount is not set.
func krrNumber(r cluster.Resources, res cluster.Resource) any {
	v, ok := r.Get(res)
	if !ok {
		return nil
	}
	return res.InUnits(v)
}

// krrUnknowable reports whether nothing is recommended for a resource.
func krrUnknowable(row *core.Row, res cluster.Resource) bool {
	return row.Confidence == core.None || row.OnlyShown(res)
}

func krrRecommendedOf(row *core.Row, before, after cluster.Resources) krrPair[krrValue] {
	value := func(res cluster.Resource) krrValue {
		if krrUnknowable(row, res) {
			return krrValue{Value: krrUnknown, Severity: "UNKNOWN"}
		}
		return krrValue{Value: krrNumber(after, res), Severity: krrDifference(before, after, res)}
	}
	return krrPair[krrValue]{CPU: value(cluster.CPU), Memory: value(cluster.Memory)}
}

// krrDifference returns KRR's severity of a difference.
func krrDifference(before, after cluster.Resources, res cluster.Resource) string {
	from, had := before.Get(res)
	to, has := after.Get(res)
	if had != has {
		return "WARNING"
	}
	steps := [...]float64{500, 250, 100} // millicores
	diff := math.Abs(float64(to - from))
	if res == cluster.Memory {
		diff /= 1 << 20 // MiB
	}
	for i, step := range steps {
		if diff >= step {
			return krrSeverities[i]
		}
	}
	return "GOOD"
}

// krrCSV writes KRR's CSV format: names only in the first row of a workload.
func (p *printer) krrCSV() {
	w := csv.NewWriter(&p.Text)
	_ = w.Write([]string{
		"Namespace", "Name", "Pods", "Old Pods", "Type", "Container", "Severity", "CPU Diff", "CPU Requests", "CPU Limits", "Memory Diff", "Memory Requests", "Memory Limits",
	})
	last := cluster.Workload{}
	for _, row := range p.ByName() {
		pods := max(len(row.Places), row.Replicas)
		cells := []string{"", "", "", "", "", inert(row.Container)}
		if row.Workload != last {
			cells = []string{inert(row.Workload.Namespace), inert(row.Workload.Name), strconv.Itoa(pods), "0", inert(row.Workload.Kind), inert(row.Container)}
			last = row.Workload
		}
		cells = append(cells, p.krrScan(row).Severity)
		for _, res := range cluster.All {
			cells = append(cells, krrDiff(row, res, int64(pods)), krrChange(row, row.Requests, row.Request, res, true), krrChange(row, row.Limits, row.Limit, res, false))
		}
		_ = w.Write(cells)
	}
	w.Flush()
	p.err = w.Error()
}

// krrDiff returns the change of a request over a number of pods, "" if it is not known.
func krrDiff(row *core.Row, res cluster.Resource, pods int64) string {
	if krrUnknowable(row, res) {
		return ""
	}
	diff := row.Request.Amount(res) - row.Requests.Amount(res)
	sign := "+"
	if diff < 0 {
		sign = "-"
		diff = -diff
	}
	return sign + krrQuantity(res, diff*pods)
}

// krrChange returns "(+133m) 500m -> 633m".
func krrChange(row *core.Row, before, after cluster.Resources, res cluster.Resource, isRequest bool) string {
	from, to := krrUnset, krrUnset
	v, had := before.Get(res)
	if had {
		from = krrQuantity(res, v)
	}
	v, has := after.Get(res)
	if has {
		to = krrQuantity(res, v)
	}
	if krrUnknowable(row, res) {
		to, has = krrUnknown, true
	}
	if !had && !has {
		return krrUnset
	}
	text := from + " -> " + to
	if diff := krrDiff(row, res, 1); isRequest && diff != "" {
		return "(" + diff + ") " + text
	}
	return text
}

// krrQuantity formats an amount with units that KRR has, too, but exactly: with the largest one that divides it, decimal units first. KRR rounds.
func krrQuantity(res cluster.Resource, v int64) string {
	if res == cluster.CPU {
		return strconv.FormatInt(v, 10) + "m"
	}
	for _, u := range [...]struct {
		name string
		size int64
	}{{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}, {"Ti", 1 << 40}, {"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}} {
		if v != 0 && v%u.size == 0 {
			return strconv.FormatInt(v/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(v, 10)
}
