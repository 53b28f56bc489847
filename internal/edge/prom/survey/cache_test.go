// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/edge/prom/answer"
)

// cacheFiles returns the files of a cache.
func cacheFiles(t testing.TB, c *Cache) (out []string) {
	t.Helper()
	err := filepath.WalkDir(c.dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func cached(c *Cache) func(*Config) { return func(config *Config) { config.Cache = c } }

// touchAll gives all files the present time: with make test-clock, the clock of the file system differs from that of the test.
func touchAll(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, time.Now(), time.Now()))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCache_secondRun_readsOnlyThePresentDay(t *testing.T) {
	dir := t.TempDir()
	f := newFake(map[string]int{"shop": 3, "pay": 0})
	first := read(t, f.survey(t, cached(OpenCache(dir, "uid-1"))), 14, "shop", "pay")
	first.checkComplete(t, f, "shop")
	touchAll(t, dir)
	n := len(f.ranges)
	s := f.survey(t, cached(OpenCache(dir, "uid-1")))
	second := read(t, s, 14, "shop", "pay")
	if got := len(f.ranges) - n; n != 15*5 || got != 5 {
		t.Errorf("%d range queries, then %d, want 75 and 5", n, got)
	}
	if !reflect.DeepEqual(first.hours, second.hours) {
		t.Error("the second run has other hours")
	}
	if p := s.Progress(); p.Done != p.Planned || p.Done != 6 {
		t.Errorf("progress is %+v, want 6 of 6 queries", p)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.Cache = OpenCache(dir, "uid-2") },
		func(c *Config) { c.Address = "http://other.invalid" },
		func(c *Config) { c.Labels = []Label{{"cluster", "eu"}} },
		func(c *Config) { c.Params = url.Values{"extra_label": {"cluster=eu"}} },
		func(c *Config) { c.Tenant = "X-Scope-OrgID: eu" },
	} {
		n := len(f.ranges)
		read(t, f.survey(t, cached(OpenCache(dir, "uid-1")), change), 14, "shop", "pay")
		if got := len(f.ranges) - n; got != 75 {
			t.Errorf("after a change %d range queries, want 75", got)
		}
	}
}

func TestCache_files_areOnlyReadableByTheUser(t *testing.T) {
	cache := OpenCache(filepath.Join(t.TempDir(), "podfit"), "uid")
	f := newFake(map[string]int{"shop": 3})
	read(t, f.survey(t, cached(cache)), 2)
	err := filepath.WalkDir(filepath.Dir(cache.dir), func(path string, entry fs.DirEntry, err error) error {
		info, _ := entry.Info()
		want := fs.FileMode(0o600)
		if entry.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
		return err
	})
	if err != nil || len(cacheFiles(t, cache)) != 2 {
		t.Errorf("error %v, %d files, want 2", err, len(cacheFiles(t, cache)))
	}
}

// Each damage makes the next run read all days again, with a note, and repairs the cache.
func TestCache_damagedFiles_areIgnoredWithANote(t *testing.T) {
	for name, damage := range map[string]func(path string, content []byte) []byte{
		"empty":         func(string, []byte) []byte { return nil },
		"no gzip":       func(string, []byte) []byte { return []byte("shop") },
		"truncated":     func(_ string, b []byte) []byte { return b[:len(b)/2] },
		"flipped bit":   func(_ string, b []byte) []byte { b[len(b)-6] ^= 1; return b },
		"other content": func(string, []byte) []byte { return zipped([]byte("{}")) },
		"other day":     func(string, []byte) []byte { return zipped(newTable(now).encode("shop")) },
		"bomb":          func(string, []byte) []byte { return zipped(make([]byte, maxDecoded+1)) },
		"too large":     func(path string, b []byte) []byte { return append(b, make([]byte, maxFile)...) },
	} {
		t.Run(name, func(t *testing.T) {
			cache := OpenCache(t.TempDir(), "uid")
			f := newFake(map[string]int{"shop": 3})
			want := read(t, f.survey(t, cached(cache)), 1)
			path := cacheFiles(t, cache)[0]
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(path, content), 0o600); err != nil {
				t.Fatal(err)
			}
			got := read(t, f.survey(t, cached(cache)), 1)
			if !reflect.DeepEqual(got.hours, want.hours) || got.err != nil {
				t.Errorf("error %v, or other hours", got.err)
			}
			if len(got.notes) != 1 || !strings.Contains(got.notes[0], "shop.usage.gz") || name == "too large" && !strings.Contains(got.notes[0], "at most") {
				t.Errorf("notes %q, want one with the file", got.notes)
			}
			if again := read(t, f.survey(t, cached(cache)), 1); len(again.notes) > 0 {
				t.Errorf("the cache is not repaired: %q", again.notes)
			}
		})
	}
}

func zipped(content []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	_, _ = z.Write(content)
	_ = z.Close()
	return b.Bytes()
}

func TestCache_unusableDirectory_hasNoEffectButANote(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	removed := OpenCache(t.TempDir(), "uid")
	if err := os.RemoveAll(removed.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(removed.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, cache := range map[string]*Cache{
		"a file":             OpenCache(file, "uid"),
		"bad UID":            OpenCache(t.TempDir(), "../uid"),
		"no UID":             OpenCache(t.TempDir(), ""),
		"replaced meanwhile": removed,
	} {
		f := newFake(map[string]int{"shop": 3})
		r := read(t, f.survey(t, cached(cache)), 2)
		r.checkComplete(t, f, "shop")
		if len(r.notes) == 0 || !strings.Contains(r.notes[0], "cache") {
			t.Errorf("%s: notes %q, want one about the cache", name, r.notes)
		}
	}
}

func TestCache_twoProcesses_bothRead(t *testing.T) {
	dir := t.TempDir()
	if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()).Abs() > time.Hour {
		t.Skipf("The file system has another clock than the tests, so each process deletes the files of the other one as old ones: %v", err)
	}
	f := newFake(map[string]int{"shop": 30})
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			r := read(t, f.survey(t, cached(OpenCache(dir, "uid"))), 14)
			r.checkComplete(t, f, "shop")
			if len(r.notes) > 0 {
				t.Errorf("notes %q", r.notes)
			}
		})
	}
	both.Wait()
	for _, path := range cacheFiles(t, OpenCache(dir, "uid")) {
		if strings.HasSuffix(path, temporary) {
			t.Errorf("%s is left", path)
		}
	}
}

func TestCache_tooLarge_oldestDaysAreDeleted(t *testing.T) {
	cache := OpenCache(t.TempDir(), "uid")
	f := newFake(map[string]int{"shop": 3})
	read(t, f.survey(t, cached(cache)), 10)
	touchAll(t, cache.dir)
	old := cacheFiles(t, cache)[9]
	if err := os.Chtimes(old, now, now); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(cache.dir, "x"+temporary)
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(left, now, now); err != nil {
		t.Fatal(err)
	}
	files := cacheFiles(t, cache)
	info, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.trim(info.Size() * 3); err != nil {
		t.Fatal(err)
	}
	got := cacheFiles(t, cache)
	if len(got) < 2 || len(got) > 3 {
		t.Fatalf("%d files, want 2 or 3", len(got))
	}
	for _, path := range got {
		if path == old {
			t.Errorf("%s is left", old)
		}
		if d := filepath.Base(filepath.Dir(path)); d < "1999-12-06" {
			t.Errorf("%s is left", d)
		}
	}
}

func TestCache_incompleteDay_isReadAgain(t *testing.T) {
	cache := OpenCache(t.TempDir(), "uid")
	f := newFake(map[string]int{"shop": 3})
	s := f.survey(t, cached(cache))
	for range 2 {
		plan, err := s.Plan(t.Context(), nil, now.AddDate(0, 0, -1), now.Truncate(day).Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		readPlan(t.Context(), s, plan)
	}
	if n := len(f.ranges); n != 10 || len(cacheFiles(t, cache)) > 0 {
		t.Errorf("%d range queries, want 10: the last hour of the day is missing", n)
	}
}

// Samples of the last minutes of a day may arrive after its end.
func TestCache_dayThatJustEnded_isReadAgain(t *testing.T) {
	for age, want := range map[time.Duration]int{settled - time.Second: 0, settled + time.Second: 1} {
		synctest.Test(t, func(t *testing.T) {
			cache := OpenCache(t.TempDir(), "uid")
			s := newFake(map[string]int{"shop": 3}).survey(t, cached(cache))
			midnight := time.Now()
			time.Sleep(age)
			plan, err := s.Plan(t.Context(), nil, midnight.Add(-day), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			readPlan(t.Context(), s, plan)
			if n := len(cacheFiles(t, cache)); n != want {
				t.Errorf("%v after the day %d files are cached, want %d", age, n, want)
			}
		})
	}
}

func TestCache_dayWithAGap_isReadAgainForThatNamespaceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		f := newFake(map[string]int{"bad": 3, "good": 3})
		f.fails = func(q *asked) *http.Response {
			if q.measure == Throttled && slices.Contains(q.namespaces, "bad") {
				return status(http.StatusUnprocessableEntity)
			}
			return nil
		}
		if r := read(t, f.survey(t, cached(OpenCache(dir, "uid"))), 2); len(r.gaps) != 1 {
			t.Fatalf("gaps %v, want one", r.gaps)
		}
		f.fails, f.ranges = nil, nil
		r := read(t, f.survey(t, cached(OpenCache(dir, "uid"))), 2)
		r.checkComplete(t, f, "bad", "good")
		if n := len(f.ranges); n != 3*5 {
			t.Errorf("the second run sends %d range queries, want 15: of namespace bad, and of the present day", n)
		}
		for _, q := range f.ranges {
			if past := q.from.Before(r.plan.To.Truncate(day)); past == slices.Contains(q.namespaces, "good") {
				t.Errorf("the second run reads %v from %v", q.namespaces, q.from)
			}
		}
	})
}

// FuzzCacheDecode decodes arbitrary files. A table that can be decoded must encode to an equal one.
func FuzzCacheDecode(f *testing.F) {
	t0 := newTable(now.Truncate(day))
	_ = t0.add(&query{measure: Memory, group: group{namespaces: []string{"shop"}, joined: true}, to: 24}, &series{
		Metric: map[string]string{"namespace": "shop", "workload": "web", "workload_type": "job", "container": "app"},
		Values: answer.Points{{At: float64(t0.day.Unix() + 3600), Value: 5}},
	})
	f.Add(t0.encode("shop"))
	f.Add(t0.encode("none"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		got := newTable(t0.day)
		if got.decode(data, "shop") != nil {
			if len(got.rows) > 0 {
				t.Error("a failed decode changed the table")
			}
			return
		}
		again := newTable(t0.day)
		if err := again.decode(got.encode("shop"), "shop"); err != nil || !reflect.DeepEqual(got, again) {
			t.Errorf("error %v, or another table", err)
		}
	})
}
