// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
)

const head = "time,namespace,kind,name,pod,container,cpu_cores,memory_bytes\n"

// write creates files in a new folder. Files named *.gz are compressed.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		data := []byte(text)
		if strings.HasSuffix(name, ".gz") {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			z.Write(data)
			z.Close()
			data = b.Bytes()
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRead_folder_readsAllTraces(t *testing.T) {
	dir := write(t, map[string]string{
		"a.csv": head +
			"1372629804,shop,Deployment,web,web-0,app,0.5,\n" +
			"1372629804,shop,Deployment,web,web-1,app,0.25,1048576\n" +
			"2013-06-30T22:08:24Z,shop,Deployment,web,web-0,app,0,0\n" +
			"1372630404,shop,Deployment,web,web-0,app,,\n",
		"b.csv.gz": head + "1372629800,shop,Deployment,web,web-1,proxy,1e-3,5\n" + "1372629804,lab,Job,run,run-x,main,1,2\n",
		"c.txt":    "not a trace",
	})
	ws, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(ws) != 2 || ws[0].Key.Name != "run" || ws[0].Key.Group != "batch" {
		t.Fatalf("got workloads %v, want run and web", ws)
	}
	w := ws[1]
	want := []replay.Sample{
		{At: 1372629800, CPU: 0.001, Memory: 5, Pod: 1, Container: 1, Has: cluster.Both},
		{At: 1372629804, CPU: 0.5, Pod: 0, Container: 0, Has: cluster.Of(cluster.CPU)},
		{At: 1372629804, CPU: 0.25, Memory: 1048576, Pod: 1, Container: 0, Has: cluster.Both},
		{At: 1372630104, Pod: 0, Container: 0, Has: cluster.Both},
	}
	if len(w.Samples) != len(want) {
		t.Fatalf("got %d samples, want %d: an empty cell is not a sample, 0 is", len(w.Samples), len(want))
	}
	for i := range want {
		if w.Samples[i] != want[i] {
			t.Errorf("sample %d: got %+v, want %+v", i, w.Samples[i], want[i])
		}
	}
}

func TestRead_invalidInput_errorHasFileLineAndCause(t *testing.T) {
	row := "1372629804,shop,Deployment,web,web-0,app,0.5,1\n"
	tests := map[string]struct{ text, want string }{
		"empty file":             {"", "t.csv: the file is empty"},
		"only a header":          {head, "the trace has no samples"},
		"missing columns":        {"time,namespace,kind,name,pod,container,cpu_cores\n", "t.csv:1: missing columns: memory_bytes; the first line must be time,"},
		"no header":              {row, "t.csv:1: missing columns: time, namespace"},
		"column twice":           {"time,time,namespace,kind,name,pod,container,cpu_cores,memory_bytes\n", "t.csv:1: duplicate column time"},
		"short row":              {head + row + "1372630104,shop,Deployment\n", "t.csv:3: the row has 3 fields, but the first line has 8 columns"},
		"broken quotes":          {head + "1372629804,\"shop,Deployment,web,web-0,app,0.5,1\n", "t.csv:2: "},
		"unsorted":               {head + row + "1372629504,shop,Deployment,web,web-0,app,0.5,1\n", "t.csv:3: rows of a container must be sorted by time, but 1372629504 follows 1372629804 (line 2)"},
		"duplicate":              {head + row + row, "t.csv:3: duplicate row for time 1372629804"},
		"negative CPU":           {head + "1372629804,shop,Deployment,web,web-0,app,-0.5,1\n", "t.csv:2: cpu_cores must not be negative, got -0.5"},
		"negative memory":        {head + "1372629804,shop,Deployment,web,web-0,app,0.5,-1\n", "t.csv:2: memory_bytes must not be negative, got -1"},
		"too much CPU":           {head + "1372629804,shop,Deployment,web,web-0,app,1e9,1\n", "t.csv:2: cpu_cores must be at most 100000, got 1e9"},
		"too much memory":        {head + "1372629804,shop,Deployment,web,web-0,app,1,1e18\n", "t.csv:2: memory_bytes must be at most 1e+14, got 1e18"},
		"not a number":           {head + "1372629804,shop,Deployment,web,web-0,app,NaN,1\n", `t.csv:2: cpu_cores must be a number, got "NaN"`},
		"not a time":             {head + "yesterday,shop,Deployment,web,web-0,app,1,1\n", `t.csv:2: time "yesterday" is neither`},
		"in milliseconds":        {head + "1372629804000,shop,Deployment,web,web-0,app,1,1\n", "t.csv:2: time must be between 1970 and 2200, got 1372629804000; Unix times are in seconds, this may be in milliseconds"},
		"time offsets":           {head + "0,shop,Deployment,web,web-0,app,1,1\n", "t.csv:2: time must be between 1970 and 2200, got 0; Unix times are seconds since 1970, not since"},
		"in nanoseconds":         {head + "1372629804000000000,shop,Deployment,web,web-0,app,1,1\n", "this may be in nanoseconds"},
		"the year 2300":          {head + "2300-01-01T00:00:00Z,shop,Deployment,web,web-0,app,1,1\n", "t.csv:2: time must be between 1970 and 2200, got 2300-01-01T00:00:00Z"},
		"fraction of a second":   {head + "1372629804.5,shop,Deployment,web,web-0,app,1,1\n", `t.csv:2: time "1372629804.5" is neither Unix seconds, such as 1372629804`},
		"infinite CPU":           {head + "1372629804,shop,Deployment,web,web-0,app,+Inf,1\n", `t.csv:2: cpu_cores must be a number, got "+Inf"`},
		"beyond float64":         {head + "1372629804,shop,Deployment,web,web-0,app,1,1e400\n", "t.csv:2: memory_bytes must be at most 1e+14, got 1e400"},
		"GiB, not bytes":         {head + "1372629804,shop,Deployment,web,web-0,app,1,0.25\n", "t.csv:2: memory_bytes must be in bytes, got 0.25, which is less than one byte"},
		"hexadecimal":            {head + "1372629804,shop,Deployment,web,web-0,app,0x1p-2,1\n", `t.csv:2: cpu_cores must be a number, got "0x1p-2"`},
		"grouped digits":         {head + "1372629804,shop,Deployment,web,web-0,app,1,1_000_000\n", `t.csv:2: memory_bytes must be a number, got "1_000_000"`},
		"blank cell":             {head + "1372629804,shop,Deployment,web,web-0,app, ,1\n", `t.csv:2: cpu_cores must be a number, got " "`},
		"semicolons":             {strings.ReplaceAll(head+row, ",", ";"), `t.csv:1: columns are separated by ";"; use commas`},
		"tabs":                   {strings.ReplaceAll(head+row, ",", "\t"), `t.csv:1: columns are separated by "\t"; use commas`},
		"UTF-16":                 {"\xff\xfet\x00i\x00m\x00e\x00", "t.csv:1: the file is UTF-16; save it as UTF-8"},
		"carriage returns":       {strings.ReplaceAll(head+row, "\n", "\r"), "t.csv:1: lines end with a carriage return only"},
		"binary file":            {"\x7fELF\x02\x01\x01\x00\x00\x00\x00\n", "t.csv:1: the file is not text"},
		"binary file with quote": {"\x00\x01\"\x02,\n", "t.csv:1: the file is not CSV"},
		"compressed file":        {"\x1f\x8b\x08", "t.csv: the file is gzip-compressed; rename it to *.csv.gz"},
		"a timeline":             {"time,namespace,kind,name,container,recommender,resource,request\n", "t.csv:1: the file is a timeline"},
		"blank lines":            {"\n\n", "t.csv: the file is empty"},
		"escape sequence":        {head + "1372629804,shop,Deployment,\x1b[31mweb,web-0,app,1,1\n", `t.csv:2: name "\x1b[31mweb" has characters that are not allowed in a name`},
		"tab in a name":          {head + "1372629804,shop,Deployment,web,\"web\t0\",app,1,1\n", `t.csv:2: pod "web\t0" has characters`},
		"invalid UTF-8":          {head + "1372629804,shop,Deployment,w\xffeb,web-0,app,1,1\n", `t.csv:2: name "w\xffeb" has characters`},
		"space in a name":        {head + "1372629804, shop,Deployment,web,web-0,app,1,1\n", `t.csv:2: namespace " shop" has characters`},
		"unclosed quote":         {head + row + "1372630104,\"shop,Deployment,web,web-0,app,0.5,1\n" + strings.Repeat(row, 5000), "t.csv:3: the row is longer than 64 KiB: a quote"},
		"long line":              {head + strings.Repeat("x", 1<<20), "t.csv:2: the row is longer than 64 KiB"},
		"long first line":        {strings.Repeat("x", 1<<20), "t.csv:1: the row is longer than 64 KiB"},
		"no name":                {head + "1372629804,shop,Deployment,,web-0,app,1,1\n", "t.csv:2: name is empty"},
		"no sample at all":       {head + "1372629804,shop,Deployment,web,web-0,app,,\n", "the trace has no samples"},
	}
	for name, tt := range tests {
		_, err := Read(filepath.Join(write(t, map[string]string{"t.csv": tt.text}), "t.csv"))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", name, err, tt.want)
		}
	}
}

func TestRead_variantsOfCSV_returnTheSameTrace(t *testing.T) {
	rows := "1372629804,shop,Deployment,web,web-0,app,0.5,1048576\n1372630104,shop,Deployment,web,web-0,app,0.25,\n"
	want, err := Read(write(t, map[string]string{"t.csv": head + rows}))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"byte order mark":            "\ufeff" + head + rows,
		"byte order mark and quotes": "\ufeff" + strings.Replace(head, "time", `"time"`, 1) + rows,
		"CRLF":                       strings.ReplaceAll(head+rows, "\n", "\r\n"),
		"no last line feed":          strings.TrimSuffix(head+rows, "\n"),
		"quoted":                     head + strings.ReplaceAll(rows, "Deployment", `"Deployment"`),
		"blank lines":                head + "\n" + rows + "\n\n",
	} {
		if got, err := Read(write(t, map[string]string{"t.csv": text})); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// endless is a reader of an infinite line.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return copy(p, strings.Repeat("x", len(p))), nil
}

func TestRows_infiniteLine_stopsAtTheLimit(t *testing.T) {
	r := reader{name: "t.csv"}
	in := &endless{}
	if err := r.rows(in); err == nil || in.read > 4*maxRow {
		t.Errorf("read %d bytes, want at most %d: %v", in.read, 4*maxRow, err)
	}
}

func TestRead_containerInTwoFiles_returnsError(t *testing.T) {
	row := "1372629804,shop,Deployment,web,web-0,app,0.5,1\n"
	_, err := Read(write(t, map[string]string{"a.csv": head + row, "b.csv": head + row}))
	if err == nil || !strings.Contains(err.Error(), "b.csv:2: container app of pod web-0 is also in ") {
		t.Errorf("got error %v", err)
	}
}

func TestRead_pathIsNotATrace_errorHasTheCause(t *testing.T) {
	dir := write(t, map[string]string{"broken.csv.gz": "x", "empty.txt": ""})
	if err := os.WriteFile(filepath.Join(dir, "broken.csv.gz"), []byte("plain text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "none.csv.gz"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"start.csv.gz": "\x1f\x8bplain text", "short.csv.gz": "\x1f\x8b\x08"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "broken.csv.gz"): "broken.csv.gz: the file is named *.gz but is not gzip-compressed; if it is plain CSV, rename it to *.csv",
		filepath.Join(dir, "none.csv.gz"):   "none.csv.gz: the file is empty",
		filepath.Join(dir, "start.csv.gz"):  "start.csv.gz: the compressed file is corrupt at its start",
		filepath.Join(dir, "short.csv.gz"):  "short.csv.gz: the compressed file is truncated at its start",
		filepath.Join(dir, "nowhere"):       "no such file",
		t.TempDir():                         "the folder has no *.csv or *.csv.gz files",
	} {
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", path, err, want)
		}
	}
}

// FuzzRead reads arbitrary text. An error must contain the file; samples must be valid and sorted.
func FuzzRead(f *testing.F) {
	f.Add(head + "1372629804,shop,Deployment,web,web-0,app,0.5,1\n1372629805,shop,Deployment,web,web-0,app,,3\n")
	f.Add(head + "2013-06-30T22:08:24Z,a,b,c,\"d\"\"\ne\",f,1e-5,9e13\n")
	f.Add("memory_bytes,cpu_cores,container,pod,name,kind,namespace,time,extra\n1,2,c,p,n,k,ns,1372629804,x\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := newReader()
		r.name = "t.csv"
		if err := r.rows(strings.NewReader(text)); err != nil {
			if !strings.HasPrefix(err.Error(), "t.csv:") {
				t.Fatalf("error %v does not name the file", err)
			}
			return
		}
		for _, w := range r.workloads.Sorted() {
			for i, s := range w.Samples {
				if s.Has.Empty() || s.CPU < 0 || s.Memory < 0 || i > 0 && s.At < w.Samples[i-1].At {
					t.Fatalf("accepted %+v", s)
				}
			}
		}
	})
}

func TestRead_corruptGzip_isReported(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprintln(z, strings.Join(header[:], ","))
	for i := range 20_000 {
		fmt.Fprintf(z, "%d,shop,Deployment,web,web-0,main,0.%d,%d\n", 1_700_000_000+60*i, i*7919%1000, i*104729%1_000_003)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	complete := b.Bytes()
	corrupt := bytes.Clone(complete)
	for i := range corrupt[len(corrupt)/2 : len(corrupt)/2+64] {
		corrupt[len(corrupt)/2+i] ^= 0xff
	}
	for want, data := range map[string][]byte{"truncated": complete[:len(complete)/2], "corrupt": corrupt, "is corrupt": append(bytes.Clone(complete), "something else"...)} {
		path := filepath.Join(t.TempDir(), "trace.csv.gz")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Read(path)
		if err == nil || !regexp.MustCompile("^"+regexp.QuoteMeta(path)+`:\d+: `).MatchString(err.Error()) {
			t.Errorf("%s: error %v does not have the file and the line", want, err)
		}
		// Corrupt data may decompress to invalid rows before decompression fails.
		if want != "corrupt" && !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}
