// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package trace reads recorded usage from CSV files.
//
// It rejects input that it does not understand, with the file and the line, and does not guess, so a backtest
// never uses data that may have been misread.
package trace

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/usage"
)

var header = [...]string{"time", "namespace", "kind", "name", "pod", "container", "cpu_cores", "memory_bytes"}

// The columns, as indices of header.
const (
	colTime = iota
	colNamespace
	colKind
	colName
	colPod
	colContainer
	colCPU
	colMemory
)

// maxRow is the maximum length of a row in bytes. Kubernetes names have at most 253 characters. Without the limit, a quote
// that is never closed would make the CSV reader load the whole file into memory.
const maxRow = 1 << 16

// Read reads a trace: one file, or all *.csv and *.csv.gz files directly in a folder. The workloads are sorted by key. An error because of
// the content of a file has the file and the line.
func Read(path string) ([]replay.Workload, error) {
	files, err := filesOf(path)
	if err != nil {
		return nil, err
	}
	r := newReader()
	for _, file := range files {
		if err := r.file(file); err != nil {
			return nil, err
		}
	}
	read := r.workloads.Sorted()
	if len(read) == 0 {
		return nil, fmt.Errorf("%s: the trace has no samples", path)
	}
	return read, nil
}

func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	var files []string
	for _, entry := range entries {
		name := entry.Name()
		if !entry.IsDir() && IsTrace(name) {
			files = append(files, filepath.Join(path, name))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: the folder has no *.csv or *.csv.gz files", path)
	}
	return files, nil
}

// IsTrace reports whether Read reads a file with this name in a folder.
func IsTrace(path string) bool {
	return strings.HasSuffix(path, ".csv") || strings.HasSuffix(path, ".csv.gz")
}

// A reader collects workloads from one or more files.
type reader struct {
	workloads Workloads
	series    map[seriesKey]*series
	name      string // of the current file
	line      int    // number of the last line read
	column    [len(header)]int
	last      *series // the series of the previous row
}

func newReader() reader { return reader{workloads: Workloads{}, series: map[seriesKey]*series{}} }

type seriesKey struct {
	workload       cluster.Workload
	pod, container string
}

// A series is the rows of one container of one pod.
type series struct {
	seriesKey
	index          *Index // of the workload
	file           string
	podIndex       int32
	containerIndex int16
	at             int64 // time of the last row
	line           int   // line of the last row; 0: no row yet
}

// fail returns an error in a line of the current file; 0: in the whole file.
func (r *reader) fail(line int, format string, args ...any) error {
	place := r.name
	if line > 0 {
		place = fmt.Sprintf("%s:%d", r.name, line)
	}
	return fmt.Errorf("%s: %w", place, fmt.Errorf(format, args...))
}

func (r *reader) file(name string) error {
	r.name = name
	r.line = 0
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read trace: %w", err)
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<18)
	magic, _ := in.Peek(2) // the next read returns the same error
	compressed := string(magic) == "\x1f\x8b"
	hasSuffix := strings.HasSuffix(name, ".gz")
	switch {
	case hasSuffix && len(magic) == 0:
		return r.fail(0, "the file is empty")
	case hasSuffix && !compressed:
		return r.fail(0, "the file is named *.gz but is not gzip-compressed; if it is plain CSV, rename it to *.csv")
	case !hasSuffix && compressed:
		return r.fail(0, "the file is gzip-compressed; rename it to *.csv.gz")
	case !compressed:
		return r.rows(in)
	}
	unpacked, err := gzip.NewReader(in)
	if err != nil {
		return r.readError(err)
	}
	return r.rows(unpacked)
}

// A rowReader limits how much is read per row. The caller resets left before each row.
type rowReader struct {
	in   io.Reader
	left int
}

var errLongRow = fmt.Errorf("the row is longer than %d KiB: a quote may not be closed, or the file is not a trace", maxRow>>10)

func (r *rowReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errLongRow
	}
	n, err := r.in.Read(p)
	r.left -= n
	return n, err
}

func (r *reader) rows(in io.Reader) error {
	buffered := bufio.NewReader(in)
	start, _ := buffered.Peek(3)
	switch {
	case string(start) == "\ufeff": // byte order mark
		_, _ = buffered.Discard(len(start))
	case strings.HasPrefix(string(start), "\xff\xfe"), strings.HasPrefix(string(start), "\xfe\xff"):
		return r.fail(1, "the file is UTF-16; save it as UTF-8")
	}
	limit := &rowReader{in: buffered, left: maxRow}
	lines := csv.NewReader(limit)
	lines.ReuseRecord = true
	lines.FieldsPerRecord = -1
	first, err := lines.Read()
	var syntax *csv.ParseError
	switch {
	case errors.Is(err, io.EOF):
		return r.fail(0, "the file is empty; the first line must be %s", strings.Join(header[:], ","))
	case errors.As(err, &syntax):
		return r.fail(1, "the file is not CSV (%w); the first line must be %s", syntax.Err, strings.Join(header[:], ","))
	case err != nil:
		return r.readError(err)
	}
	if err := r.columns(first); err != nil {
		return err
	}
	r.line = 1
	width := len(first)
	for {
		limit.left = maxRow
		record, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return r.readError(err)
		}
		r.line, _ = lines.FieldPos(0)
		if len(record) != width {
			return r.fail(r.line, "the row has %d fields, but the first line has %d columns", len(record), width)
		}
		if err := r.row(record, r.line); err != nil {
			return err
		}
	}
}

// readError returns an error with the place and the cause of a failed read.
func (r *reader) readError(err error) error {
	if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
		return r.fail(syntax.Line, "%w", syntax.Err)
	}
	where := "after this line"
	if r.line == 0 {
		where = "at its start"
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return r.fail(r.line, "the compressed file is truncated %s; copy it again", where)
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.As(err, new(flate.CorruptInputError)):
		return r.fail(r.line, "the compressed file is corrupt %s (%w); copy it again", where, err)
	case errors.Is(err, errLongRow):
		return r.fail(r.line+1, "%w", err)
	}
	return r.fail(r.line, "%w", err)
}

// columns finds the columns in the first line. They can be in any order; other columns are ignored.
func (r *reader) columns(first []string) error {
	var missing []string
	for i, name := range header {
		found := -1
		for j, field := range first {
			if strings.TrimSpace(field) != name {
				continue
			}
			if found >= 0 {
				return r.fail(1, "duplicate column %s", name)
			}
			found = j
		}
		if found < 0 {
			missing = append(missing, name)
		}
		r.column[i] = found
	}
	if len(missing) == 0 {
		return nil
	}
	line := strings.Join(first, ",")
	isBinary := func(c rune) bool { return c < ' ' && c != '\t' && c != '\r' || c == utf8.RuneError }
	switch {
	case strings.ContainsFunc(line, isBinary):
		return r.fail(1, "the file is not text; a trace is CSV, and its first line must be %s", strings.Join(header[:], ","))
	case slices.Contains(first, "recommender") && slices.Contains(first, "request"):
		return r.fail(1, "the file is a timeline written by a backtest, not a trace; move it to another folder")
	case strings.Contains(line, "\r"):
		return r.fail(1, "lines end with a carriage return only; use line feeds")
	}
	for _, other := range [...]string{";", "\t", "|"} {
		if strings.Contains(line, header[0]+other+header[1]) {
			return r.fail(1, "columns are separated by %q; use commas", other)
		}
	}
	return r.fail(1, "missing columns: %s; the first line must be %s", strings.Join(missing, ", "), strings.Join(header[:], ","))
}

func (r *reader) row(record []string, line int) error {
	field := func(column int) string { return record[r.column[column]] }
	at, err := parseTime(field(colTime))
	if err != nil {
		return r.fail(line, "%w", err)
	}
	sample := replay.Sample{At: at}
	for _, value := range [...]struct {
		column   int
		resource cluster.Resource
		limit    float64
		to       *float64
	}{{colCPU, cluster.CPU, usage.MaxCores, &sample.CPU}, {colMemory, cluster.Memory, usage.MaxBytes, &sample.Memory}} {
		text := field(value.column)
		if text == "" {
			continue
		}
		*value.to, err = parseUsage(text, value.resource, value.limit)
		if err != nil {
			return r.fail(line, "%s %w", header[value.column], err)
		}
		sample.Has = sample.Has.With(value.resource)
	}
	s, err := r.seriesOf(record, line)
	if err != nil {
		return err
	}
	switch {
	case s.line > 0 && at == s.at:
		return r.fail(line, "duplicate row for time %d of container %s of pod %s (first in line %d)", at, s.container, s.pod, s.line)
	case s.line > 0 && at < s.at:
		return r.fail(line, "rows of a container must be sorted by time, but %d follows %d (line %d) for container %s of pod %s", at, s.at, s.line, s.container, s.pod)
	}
	s.at = at
	s.line = line
	if sample.Has.Empty() {
		return nil
	}
	sample.Pod = s.podIndex
	sample.Container = s.containerIndex
	s.index.Samples = append(s.index.Samples, sample)
	return nil
}

// parseUsage parses an amount of CPU or memory.
func parseUsage(text string, resource cluster.Resource, limit float64) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	overflow := errors.Is(err, strconv.ErrRange)
	switch {
	case err != nil && !overflow, err == nil && (math.IsNaN(v) || math.IsInf(v, 0)),
		strings.ContainsAny(text, "xX_"): // accepted by ParseFloat as Go syntax only
		return 0, fmt.Errorf("must be a number, got %q", text)
	case v < 0:
		return 0, fmt.Errorf("must not be negative, got %s", text)
	case v > limit:
		return 0, fmt.Errorf("must be at most %g, got %s", limit, text)
	case resource == cluster.Memory && v > 0 && v < 1:
		return 0, fmt.Errorf("must be in bytes, got %s, which is less than one byte", text)
	}
	return v, nil
}

// seriesOf returns the series that a row belongs to.
func (r *reader) seriesOf(record []string, line int) (*series, error) {
	field := func(column int) string { return record[r.column[column]] }
	w := cluster.Workload{Group: cluster.BuiltinKinds[field(colKind)], Kind: field(colKind), Namespace: field(colNamespace), Name: field(colName)}
	key := seriesKey{w, field(colPod), field(colContainer)}
	if last := r.last; last != nil && last.file == r.name && last.seriesKey == key {
		return last, nil
	}
	for column := colNamespace; column <= colContainer; column++ {
		name := field(column)
		switch {
		case name == "":
			return nil, r.fail(line, "%s is empty", header[column])
		case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || strings.TrimSpace(name) != name:
			return nil, r.fail(line, "%s %q has characters that are not allowed in a name", header[column], name)
		}
	}
	s := r.series[key]
	if s == nil { // the fields share the memory of their row, which must not be kept
		w.Kind = strings.Clone(w.Kind)
		w.Namespace = strings.Clone(w.Namespace)
		w.Name = strings.Clone(w.Name)
		index := r.workloads.Of(w)
		key = seriesKey{index.Key, strings.Clone(key.pod), strings.Clone(key.container)}
		container, ok := index.ContainerIndex(key.container)
		if !ok {
			return nil, r.fail(line, "%s has more than %d containers", w, math.MaxUint8)
		}
		s = &series{seriesKey: key, index: index, file: r.name, podIndex: index.PodIndex(key.pod), containerIndex: container}
		r.series[key] = s
	}
	if s.file != r.name {
		return nil, r.fail(line, "container %s of pod %s is also in %s; all rows of a container must be in one file", s.container, s.pod, s.file)
	}
	r.last = s
	return s, nil
}

// parseTime parses Unix seconds or RFC 3339.
func parseTime(s string) (int64, error) {
	at, err := strconv.ParseInt(s, 10, 64)
	isNumber := err == nil
	if !isNumber {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return 0, fmt.Errorf("time %q is neither Unix seconds, such as 1372629804, nor RFC 3339, such as 2013-06-30T22:03:24Z", s)
		}
		at = t.Unix()
	}
	const from, before = 0, 7_258_118_400 // 1970 to 2200
	if at > from && at < before {
		return at, nil
	}
	hint := ""
	switch {
	case !isNumber:
	case at <= 0:
		hint = "; Unix times are seconds since 1970, not since the start of the trace"
	case at >= 1e17:
		hint = "; Unix times are in seconds, this may be in nanoseconds"
	case at >= 1e14:
		hint = "; Unix times are in seconds, this may be in microseconds"
	case at >= 1e11:
		hint = "; Unix times are in seconds, this may be in milliseconds"
	}
	return 0, fmt.Errorf("time must be between 1970 and 2200, got %s%s", s, hint)
}

// Workloads are the workloads whose usage is being read.
type Workloads map[cluster.Workload]*Index

// Of returns the Index of a workload, and adds the workload if it is new.
func (w Workloads) Of(key cluster.Workload) *Index {
	if w[key] == nil {
		w[key] = &Index{Workload: replay.Workload{Key: key}, pods: map[string]int32{}, containers: map[string]int16{}}
	}
	return w[key]
}

// Sorted returns the workloads with usage sorted by key, with their samples sorted.
func (w Workloads) Sorted() []replay.Workload {
	var out []replay.Workload
	for _, x := range w {
		if len(x.Samples) > 0 {
			x.Sort()
			out = append(out, x.Workload)
		}
	}
	slices.SortFunc(out, func(a, b replay.Workload) int { return a.Key.Compare(b.Key) })
	return out
}

// An Index is a workload whose usage is being read.
type Index struct {
	replay.Workload
	pods       map[string]int32 // indices into Pods
	containers map[string]int16 // indices into Containers
}

// PodIndex returns the index of a pod, and adds the pod if it is new.
func (x *Index) PodIndex(name string) int32 { return indexOf(x.pods, &x.Pods, name) }

// ContainerIndex returns the index of a container, and adds the container if it is new. It returns false if there are too
// many.
func (x *Index) ContainerIndex(name string) (int16, bool) {
	if _, known := x.containers[name]; !known && len(x.Containers) == math.MaxUint8 {
		return 0, false
	}
	return indexOf(x.containers, &x.Containers, name), true
}

// indexOf returns the index of a name, and adds the name if it is new.
func indexOf[I int16 | int32](known map[string]I, names *[]string, name string) I {
	i, ok := known[name]
	if !ok {
		i = I(len(*names))
		known[name] = i
		*names = append(*names, name)
	}
	return i
}
