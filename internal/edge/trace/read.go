// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

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
)

// header names the columns of a trace.
var header = [...]string{"time", "namespace", "kind", "name", "pod", "container", "cpu_cores", "memory_bytes"}

// The columns, by their place in header.
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

// More than any container uses: such a value is a mistake in the file.
const (
	maxCores = 1e5
	maxBytes = 1e14
)

// maxRow is how long a row may be: names of Kubernetes have at most 253 characters. Without it a quote that is never
// closed, or a file that is something else, would be read into memory as a whole.
const maxRow = 1 << 16

// An Error is a mistake in a file.
type Error struct {
	File string
	Line int // 0: the file as a whole
	Err  error
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Read reads a trace: a file, or every *.csv and *.csv.gz directly in a folder. The workloads are sorted by key.
func Read(path string) ([]replay.Workload, error) {
	files, err := filesOf(path)
	if err != nil {
		return nil, err
	}
	r := reader{workloads: map[cluster.Workload]*workload{}}
	for _, f := range files {
		if err := r.file(f); err != nil {
			return nil, err
		}
	}
	return r.finish(path)
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
	for _, e := range entries {
		if n := e.Name(); !e.IsDir() && (strings.HasSuffix(n, ".csv") || strings.HasSuffix(n, ".csv.gz")) {
			files = append(files, filepath.Join(path, n))
		}
	}
	if len(files) == 0 {
		return nil, &Error{File: path, Err: errors.New("no *.csv or *.csv.gz in this folder")}
	}
	return files, nil
}

// reader gathers workloads over files.
type reader struct {
	workloads map[cluster.Workload]*workload
	name      string
	line      int // the last one that was read
	column    [len(header)]int
	last      *stream // that of the row before
}

type workload struct {
	replay.Workload
	streams map[[2]string]*stream
	pods    map[string]int32
	places  map[string]int16
}

// stream is one container of one pod.
type stream struct {
	w              *workload
	pod, container string
	file           string
	podIndex       int32
	index          int16
	at             int64
	line           int
}

func (r *reader) fail(line int, format string, args ...any) error {
	return &Error{File: r.name, Line: line, Err: fmt.Errorf(format, args...)}
}

func (r *reader) file(name string) error {
	r.name, r.line = name, 0
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read trace: %w", err)
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<18)
	magic, _ := in.Peek(2) // an error comes again when it is read
	packed := string(magic) == "\x1f\x8b"
	switch named := strings.HasSuffix(name, ".gz"); {
	case named && len(magic) == 0:
		return r.fail(0, "the file is empty")
	case named && !packed:
		return r.fail(0, "the file is not compressed by gzip, as its name says; if it is plain CSV, name it *.csv")
	case !named && packed:
		return r.fail(0, "the file is compressed; name it *.csv.gz")
	case !packed:
		return r.rows(in)
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return r.broken(err)
	}
	return r.rows(z)
}

// A rowReader reads no more than a row may have, from when it was last let.
type rowReader struct {
	in   io.Reader
	left int
}

var errLongRow = fmt.Errorf("a row is longer than %d KiB: a quote that is never closed, or no trace", maxRow>>10)

// Read implements io.Reader.
func (r *rowReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errLongRow
	}
	n, err := r.in.Read(p)
	r.left -= n
	return n, err
}

// rows reads one file's rows.
func (r *reader) rows(in io.Reader) error {
	text := bufio.NewReader(in)
	switch start, _ := text.Peek(3); {
	case string(start) == "\ufeff":
		_, _ = text.Discard(len(start))
	case strings.HasPrefix(string(start), "\xff\xfe"), strings.HasPrefix(string(start), "\xfe\xff"):
		return r.fail(1, "the text is UTF-16; save it as UTF-8")
	}
	limit := &rowReader{in: text, left: maxRow}
	c := csv.NewReader(limit)
	c.ReuseRecord = true
	c.FieldsPerRecord = -1
	first, err := c.Read()
	var wrong *csv.ParseError
	switch {
	case errors.Is(err, io.EOF):
		return r.fail(0, "the file is empty; its first line should be %s", strings.Join(header[:], ","))
	case errors.As(err, &wrong):
		return r.fail(1, "this is no CSV (%w); the first line should be %s", wrong.Err, strings.Join(header[:], ","))
	case err != nil:
		return r.broken(err)
	}
	if err := r.columns(first); err != nil {
		return err
	}
	r.line = 1
	width := len(first)
	for {
		limit.left = maxRow
		rec, err := c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return r.broken(err)
		}
		line, _ := c.FieldPos(0)
		r.line = line
		if len(rec) != width {
			return r.fail(line, "%d fields, but the first line names %d columns", len(rec), width)
		}
		if err := r.row(rec, line); err != nil {
			return err
		}
	}
}

// broken says where a file stops making sense.
func (r *reader) broken(err error) error {
	if p := (*csv.ParseError)(nil); errors.As(err, &p) {
		return r.fail(p.Line, "%w", p.Err)
	}
	where := "after this line"
	if r.line == 0 {
		where = "at its beginning"
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return r.fail(r.line, "the compressed file is cut off %s; copy it again", where)
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.As(err, new(flate.CorruptInputError)):
		return r.fail(r.line, "the compressed file is damaged %s (%w); copy it again", where, err)
	case errors.Is(err, errLongRow):
		return r.fail(r.line+1, "%w", err)
	}
	return r.fail(r.line, "%w", err)
}

// columns finds the columns. Their order is free, and others are ignored.
func (r *reader) columns(first []string) error {
	var missing []string
	for i, name := range header {
		at := -1
		for j, f := range first {
			if strings.TrimSpace(f) != name {
				continue
			}
			if at >= 0 {
				return r.fail(1, "column %s stands twice", name)
			}
			at = j
		}
		if at < 0 {
			missing = append(missing, name)
		}
		r.column[i] = at
	}
	if len(missing) == 0 {
		return nil
	}
	line := strings.Join(first, ",")
	switch {
	case strings.ContainsFunc(line, func(c rune) bool { return c < ' ' && c != '\t' && c != '\r' || c == utf8.RuneError }):
		return r.fail(1, "this is no text; a trace is CSV, and its first line is %s", strings.Join(header[:], ","))
	case slices.Contains(first, "recommender") && slices.Contains(first, "request"):
		return r.fail(1, "this is a timeline, which a backtest writes, and no trace; keep it in another folder")
	case strings.Contains(line, "\r"):
		return r.fail(1, "lines end with a carriage return alone; end them with a line feed")
	}
	for _, other := range [...]string{";", "\t", "|"} {
		if strings.Contains(line, header[0]+other+header[1]) {
			return r.fail(1, "columns are separated by %q; separate them by commas", other)
		}
	}
	return r.fail(1, "column %s is missing; the first line should be %s", strings.Join(missing, ", "), strings.Join(header[:], ","))
}

func (r *reader) row(rec []string, line int) error {
	field := func(c int) string { return rec[r.column[c]] }
	at, err := parseTime(field(colTime))
	if err != nil {
		return r.fail(line, "%w", err)
	}
	s := replay.Sample{At: at}
	for _, v := range [...]struct {
		column   int
		resource cluster.Resource
		most     float64
		to       *float64
	}{{colCPU, cluster.CPU, maxCores, &s.CPU}, {colMemory, cluster.Memory, maxBytes, &s.Memory}} {
		text := field(v.column)
		if text == "" {
			continue
		}
		n, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange) || err == nil && (math.IsNaN(n) || math.IsInf(n, 0)),
			strings.ContainsAny(text, "xX_"): // as Go writes numbers, and nobody else
			return r.fail(line, "%s %q is not a number", header[v.column], text)
		case n < 0:
			return r.fail(line, "%s %s is negative", header[v.column], text)
		case n > v.most:
			return r.fail(line, "%s %s is more than any machine has (%g)", header[v.column], text, v.most)
		case v.resource == cluster.Memory && n > 0 && n < 1:
			return r.fail(line, "%s %s is less than a byte; it must be in bytes", header[v.column], text)
		}
		*v.to, s.Has = n, s.Has.With(v.resource)
	}
	st, err := r.stream(field(colNamespace), field(colKind), field(colName), field(colPod), field(colContainer), line)
	if err != nil {
		return err
	}
	switch {
	case st.line > 0 && at == st.at:
		return r.fail(line, "a second row for time %d of container %s of pod %s (the first is line %d)", at, st.container, st.pod, st.line)
	case st.line > 0 && at < st.at:
		return r.fail(line, "time goes back: %d after %d (line %d) for container %s of pod %s; rows of a container must be sorted", at, st.at, st.line, st.container, st.pod)
	}
	st.at, st.line = at, line
	if s.Has.Empty() {
		return nil
	}
	s.Pod, s.Container = st.podIndex, st.index
	st.w.Samples = append(st.w.Samples, s)
	return nil
}

// stream returns what a row belongs to.
func (r *reader) stream(namespace, kind, name, pod, container string, line int) (*stream, error) {
	if l := r.last; l != nil && l.file == r.name && l.pod == pod && l.container == container &&
		l.w.Key.Name == name && l.w.Key.Kind == kind && l.w.Key.Namespace == namespace {
		return l, nil
	}
	for i, v := range [...]string{namespace, kind, name, pod, container} {
		switch column := header[colNamespace+i]; {
		case v == "":
			return nil, r.fail(line, "%s is empty", column)
		case !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) || strings.TrimSpace(v) != v:
			return nil, r.fail(line, "%s %q has characters that no name has", column, v)
		}
	}
	key := cluster.Workload{Group: groupOf(kind), Kind: kind, Namespace: namespace, Name: name}
	w := r.workloads[key]
	if w == nil {
		key = cluster.Workload{Group: groupOf(kind), Kind: strings.Clone(kind), Namespace: strings.Clone(namespace), Name: strings.Clone(name)}
		w = &workload{streams: map[[2]string]*stream{}, pods: map[string]int32{}, places: map[string]int16{}}
		w.Key = key
		r.workloads[key] = w
	}
	s := w.streams[[2]string{pod, container}]
	if s == nil {
		s = &stream{w: w, pod: strings.Clone(pod), container: strings.Clone(container), file: r.name}
		var ok bool
		if s.podIndex, ok = w.pods[pod]; !ok {
			s.podIndex = int32(len(w.Pods))
			w.pods[s.pod] = s.podIndex
			w.Pods = append(w.Pods, s.pod)
		}
		if s.index, ok = w.places[container]; !ok {
			if len(w.Containers) == math.MaxUint8 {
				return nil, r.fail(line, "%s has more containers than a pod can have", key)
			}
			s.index = int16(len(w.Containers))
			w.places[s.container] = s.index
			w.Containers = append(w.Containers, s.container)
		}
		w.streams[[2]string{s.pod, s.container}] = s
	}
	if s.file != r.name {
		return nil, r.fail(line, "container %s of pod %s is in %s too; all its rows must be in one file", container, pod, s.file)
	}
	r.last = s
	return s, nil
}

// groupOf returns the API group of the kinds that own pods in most clusters; traces name only the kind.
func groupOf(kind string) string {
	switch kind {
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet":
		return "apps"
	case "Job", "CronJob":
		return "batch"
	}
	return ""
}

// parseTime reads Unix seconds or RFC 3339.
func parseTime(s string) (int64, error) {
	at, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return 0, fmt.Errorf("time %q is neither Unix seconds, such as 1372629804, nor RFC 3339, such as 2013-06-30T22:03:24Z", s)
		}
		at = t.Unix()
	}
	const from, before = 0, 7_258_118_400 // 1970 to 2200
	if at <= from || at >= before {
		unit := ""
		switch {
		case err != nil: // not a number
		case at <= 0:
			unit = "; Unix times are seconds since 1970, not since a trace begins"
		case at >= 1e17:
			unit = "; Unix times are in seconds, and this seems to be in nanoseconds"
		case at >= 1e14:
			unit = "; Unix times are in seconds, and this seems to be in microseconds"
		case at >= 1e11:
			unit = "; Unix times are in seconds, and this seems to be in milliseconds"
		}
		return 0, fmt.Errorf("time %s is not between 1970 and 2200%s", s, unit)
	}
	return at, nil
}

// finish returns the workloads that have samples.
func (r *reader) finish(path string) ([]replay.Workload, error) {
	var out []replay.Workload
	for _, w := range r.workloads {
		if len(w.Samples) > 0 {
			w.Sort()
			out = append(out, w.Workload)
		}
	}
	if len(out) == 0 {
		return nil, &Error{File: path, Err: errors.New("no samples in it")}
	}
	slices.SortFunc(out, func(a, b replay.Workload) int { return a.Key.Compare(b.Key) })
	return out, nil
}
