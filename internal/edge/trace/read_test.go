// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
)

const head = "time,namespace,kind,name,pod,container,cpu_cores,memory_bytes\n"

// write puts files into a new folder; names ending in .gz are compressed.
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

func TestReadsAFolderOfTraces(t *testing.T) {
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
		t.Fatalf("read %v", ws)
	}
	w := ws[1]
	want := []replay.Sample{
		{At: 1372629800, CPU: 0.001, Memory: 5, Pod: 1, Container: 1, Has: cluster.Both},
		{At: 1372629804, CPU: 0.5, Pod: 0, Container: 0, Has: cluster.Of(cluster.CPU)},
		{At: 1372629804, CPU: 0.25, Memory: 1048576, Pod: 1, Container: 0, Has: cluster.Both},
		{At: 1372630104, Pod: 0, Container: 0, Has: cluster.Both},
	}
	if len(w.Samples) != len(want) {
		t.Fatalf("%d samples, want %d: an empty cell is no sample, 0 is one", len(w.Samples), len(want))
	}
	for i := range want {
		if w.Samples[i] != want[i] {
			t.Errorf("sample %d is %+v, want %+v", i, w.Samples[i], want[i])
		}
	}
}

func TestBadInputIsNamedByFileAndLine(t *testing.T) {
	row := "1372629804,shop,Deployment,web,web-0,app,0.5,1\n"
	tests := map[string]struct{ text, want string }{
		"empty":            {"", "t.csv: the file is empty"},
		"only a header":    {head, "no samples in it"},
		"missing columns":  {"time,namespace,kind,name,pod,container,cpu_cores\n", "t.csv:1: column memory_bytes is missing"},
		"no header":        {row, "t.csv:1: column time, namespace"},
		"column twice":     {"time,time,namespace,kind,name,pod,container,cpu_cores,memory_bytes\n", "t.csv:1: column time stands twice"},
		"short row":        {head + row + "1372630104,shop,Deployment\n", "t.csv:3: 3 fields, but the first line names 8 columns"},
		"broken quotes":    {head + "1372629804,\"shop,Deployment,web,web-0,app,0.5,1\n", "t.csv:2: "},
		"unsorted":         {head + row + "1372629504,shop,Deployment,web,web-0,app,0.5,1\n", "t.csv:3: time goes back: 1372629504 after 1372629804 (line 2)"},
		"duplicate":        {head + row + row, "t.csv:3: a second row for time 1372629804"},
		"negative CPU":     {head + "1372629804,shop,Deployment,web,web-0,app,-0.5,1\n", "t.csv:2: cpu_cores -0.5 is negative"},
		"negative memory":  {head + "1372629804,shop,Deployment,web,web-0,app,0.5,-1\n", "t.csv:2: memory_bytes -1 is negative"},
		"absurd CPU":       {head + "1372629804,shop,Deployment,web,web-0,app,1e9,1\n", "t.csv:2: cpu_cores 1e9 is more than any machine has"},
		"absurd memory":    {head + "1372629804,shop,Deployment,web,web-0,app,1,1e18\n", "t.csv:2: memory_bytes 1e18 is more than any machine has"},
		"not a number":     {head + "1372629804,shop,Deployment,web,web-0,app,NaN,1\n", `t.csv:2: cpu_cores "NaN" is not a number`},
		"not a time":       {head + "yesterday,shop,Deployment,web,web-0,app,1,1\n", `t.csv:2: time "yesterday" is neither`},
		"milliseconds":     {head + "1372629804000,shop,Deployment,web,web-0,app,1,1\n", "t.csv:2: time 1372629804000 is not between 1970 and 2200; Unix times are in seconds, and this seems to be in milliseconds"},
		"offsets":          {head + "0,shop,Deployment,web,web-0,app,1,1\n", "t.csv:2: time 0 is not between 1970 and 2200; Unix times are seconds since 1970, not since"},
		"nanoseconds":      {head + "1372629804000000000,shop,Deployment,web,web-0,app,1,1\n", "this seems to be in nanoseconds"},
		"the year 2300":    {head + "2300-01-01T00:00:00Z,shop,Deployment,web,web-0,app,1,1\n", "t.csv:2: time 2300-01-01T00:00:00Z is not between 1970 and 2200"},
		"parts of seconds": {head + "1372629804.5,shop,Deployment,web,web-0,app,1,1\n", `t.csv:2: time "1372629804.5" is neither Unix seconds, such as 1372629804`},
		"infinite":         {head + "1372629804,shop,Deployment,web,web-0,app,+Inf,1\n", `t.csv:2: cpu_cores "+Inf" is not a number`},
		"beyond numbers":   {head + "1372629804,shop,Deployment,web,web-0,app,1,1e400\n", "t.csv:2: memory_bytes 1e400 is more than any machine has"},
		"GiB, not bytes":   {head + "1372629804,shop,Deployment,web,web-0,app,1,0.25\n", "t.csv:2: memory_bytes 0.25 is less than a byte"},
		"hexadecimal":      {head + "1372629804,shop,Deployment,web,web-0,app,0x1p-2,1\n", `t.csv:2: cpu_cores "0x1p-2" is not a number`},
		"digits grouped":   {head + "1372629804,shop,Deployment,web,web-0,app,1,1_000_000\n", `t.csv:2: memory_bytes "1_000_000" is not a number`},
		"blank cell":       {head + "1372629804,shop,Deployment,web,web-0,app, ,1\n", `t.csv:2: cpu_cores " " is not a number`},
		"semicolons":       {strings.ReplaceAll(head+row, ",", ";"), `t.csv:1: columns are separated by ";"; separate them by commas`},
		"tabs":             {strings.ReplaceAll(head+row, ",", "\t"), `t.csv:1: columns are separated by "\t"; separate`},
		"UTF-16":           {"\xff\xfet\x00i\x00m\x00e\x00", "t.csv:1: the text is UTF-16; save it as UTF-8"},
		"old line ends":    {strings.ReplaceAll(head+row, "\n", "\r"), "t.csv:1: lines end with a carriage return alone"},
		"binary":           {"\x7fELF\x02\x01\x01\x00\x00\x00\x00\n", "t.csv:1: this is no text"},
		"binary, quote":    {"\x00\x01\"\x02,\n", "t.csv:1: this is no CSV"},
		"compressed":       {"\x1f\x8b\x08", "t.csv: the file is compressed; name it *.csv.gz"},
		"a timeline":       {"time,namespace,kind,name,container,recommender,resource,request\n", "t.csv:1: this is a timeline"},
		"blank lines":      {"\n\n", "t.csv: the file is empty"},
		"escape sequence":  {head + "1372629804,shop,Deployment,\x1b[31mweb,web-0,app,1,1\n", `t.csv:2: name "\x1b[31mweb" has characters that no name has`},
		"tab in a name":    {head + "1372629804,shop,Deployment,web,\"web\t0\",app,1,1\n", `t.csv:2: pod "web\t0" has characters`},
		"no UTF-8":         {head + "1372629804,shop,Deployment,w\xffeb,web-0,app,1,1\n", `t.csv:2: name "w\xffeb" has characters`},
		"blank in a name":  {head + "1372629804, shop,Deployment,web,web-0,app,1,1\n", `t.csv:2: namespace " shop" has characters`},
		"endless quote":    {head + row + "1372630104,\"shop,Deployment,web,web-0,app,0.5,1\n" + strings.Repeat(row, 5000), "t.csv:3: a row is longer than 64 KiB: a quote"},
		"endless line":     {head + strings.Repeat("x", 1<<20), "t.csv:2: a row is longer than 64 KiB"},
		"endless first":    {strings.Repeat("x", 1<<20), "t.csv:1: a row is longer than 64 KiB"},
		"no name":          {head + "1372629804,shop,Deployment,,web-0,app,1,1\n", "t.csv:2: name is empty"},
		"no sample at all": {head + "1372629804,shop,Deployment,web,web-0,app,,\n", "no samples in it"},
	}
	for name, tt := range tests {
		_, err := Read(filepath.Join(write(t, map[string]string{"t.csv": tt.text}), "t.csv"))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if e := (*Error)(nil); !errors.As(err, &e) {
			t.Errorf("%s: %T says no file", name, err)
		}
	}
}

// What spreadsheets and other systems write is the same trace.
func TestTextIsReadWhoeverWroteIt(t *testing.T) {
	rows := "1372629804,shop,Deployment,web,web-0,app,0.5,1048576\n1372630104,shop,Deployment,web,web-0,app,0.25,\n"
	want, err := Read(write(t, map[string]string{"t.csv": head + rows}))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"byte order mark":   "\ufeff" + head + rows,
		"mark and quotes":   "\ufeff" + strings.Replace(head, "time", `"time"`, 1) + rows,
		"CRLF":              strings.ReplaceAll(head+rows, "\n", "\r\n"),
		"no last line feed": strings.TrimSuffix(head+rows, "\n"),
		"quoted":            head + strings.ReplaceAll(rows, "Deployment", `"Deployment"`),
		"blank lines":       head + "\n" + rows + "\n\n",
	} {
		if got, err := Read(write(t, map[string]string{"t.csv": text})); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read %+v, %v", name, got, err)
		}
	}
}

// endless is text without end.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return copy(p, strings.Repeat("x", len(p))), nil
}

func TestALineWithoutEndIsNotReadIntoMemory(t *testing.T) {
	r := reader{name: "t.csv"}
	in := &endless{}
	if err := r.rows(in); err == nil || in.read > 4*maxRow {
		t.Errorf("%d bytes were read: %v", in.read, err)
	}
}

func TestAContainerIsInOneFile(t *testing.T) {
	row := "1372629804,shop,Deployment,web,web-0,app,0.5,1\n"
	_, err := Read(write(t, map[string]string{"a.csv": head + row, "b.csv": head + row}))
	if err == nil || !strings.Contains(err.Error(), "b.csv:2: container app of pod web-0 is in ") {
		t.Errorf("%v", err)
	}
}

func TestAPathThatIsNoTrace(t *testing.T) {
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
		filepath.Join(dir, "broken.csv.gz"): "broken.csv.gz: the file is not compressed by gzip, as its name says; if it is plain CSV, name it *.csv",
		filepath.Join(dir, "none.csv.gz"):   "none.csv.gz: the file is empty",
		filepath.Join(dir, "start.csv.gz"):  "start.csv.gz: the compressed file is damaged at its beginning",
		filepath.Join(dir, "short.csv.gz"):  "short.csv.gz: the compressed file is cut off at its beginning",
		filepath.Join(dir, "nowhere"):       "no such file",
		t.TempDir():                         "no *.csv or *.csv.gz in this folder",
	} {
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(head + "1372629804,shop,Deployment,web,web-0,app,0.5,1\n1372629805,shop,Deployment,web,web-0,app,,3\n")
	f.Add(head + "2013-06-30T22:08:24Z,a,b,c,\"d\"\"\ne\",f,1e-5,9e13\n")
	f.Add("memory_bytes,cpu_cores,container,pod,name,kind,namespace,time,extra\n1,2,c,p,n,k,ns,1372629804,x\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := reader{workloads: map[cluster.Workload]*workload{}, name: "t.csv"}
		if err := r.rows(strings.NewReader(text)); err != nil {
			if e := (*Error)(nil); !errors.As(err, &e) || e.File != "t.csv" {
				t.Fatalf("%v says no file", err)
			}
			return
		}
		ws, err := r.finish("t.csv")
		if err != nil {
			return
		}
		for _, w := range ws {
			for i, s := range w.Samples {
				if s.Has.Empty() || s.CPU < 0 || s.Memory < 0 || i > 0 && s.At < w.Samples[i-1].At {
					t.Fatalf("accepted %+v", s)
				}
			}
		}
	})
}

func TestACompressedFileThatIsCutOffOrDamagedIsSaidToBe(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprintln(z, strings.Join(header[:], ","))
	for i := range 20_000 {
		fmt.Fprintf(z, "%d,shop,Deployment,web,web-0,main,0.%d,%d\n", 1_700_000_000+60*i, i*7919%1000, i*104729%1_000_003)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	damaged := bytes.Clone(whole)
	for i := range damaged[len(damaged)/2 : len(damaged)/2+64] {
		damaged[len(damaged)/2+i] ^= 0xff
	}
	for want, data := range map[string][]byte{"cut off": whole[:len(whole)/2], "damaged": damaged, "is damaged": append(bytes.Clone(whole), "something else"...)} {
		path := filepath.Join(t.TempDir(), "trace.csv.gz")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Read(path)
		var e *Error
		if !errors.As(err, &e) || e.File != path || e.Line == 0 {
			t.Errorf("%s: %v names no file and line", want, err)
		}
		// What is damaged may read as rows that make no sense before it does not read at all.
		if want != "damaged" && !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say that the file is %s", err, want)
		}
	}
}
