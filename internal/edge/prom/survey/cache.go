// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/codec"
)

const (
	cacheVersion = 2
	cacheSuffix  = ".usage.gz"
	maxCache     = 512 << 20 // bytes of all files of a cluster; the oldest days are deleted
	maxAge       = 60 * day  // of a file, so that files of former addresses are deleted
	maxFile      = 32 << 20  // bytes of a file
	maxDecoded   = 64 << 20  // bytes of the content of a file
	maxLabel     = 253       // bytes of the value of a label
)

// fileName is the form of names that are safe as a part of a path: those of namespaces, and UIDs.
var fileName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// A Cache stores past days in files of the user, one per day and namespace:
//
//	DIRECTORY/CLUSTER UID/hash of the address and the queries/2026-11-09/shop.usage.gz
//
// A file that cannot be read, written or decoded is never an error: the day is read from Prometheus, and Part.Notes has the cause. Files
// are replaced atomically, so that several processes may use one cache.
type Cache struct {
	dir  string // of the cluster
	note string // why the cache is not used
}

// DefaultDir returns the directory of the caches of a user: $XDG_CACHE_HOME/podfit or its equivalent on other systems.
func DefaultDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory of the user: %w", err)
	}
	return filepath.Join(dir, "podfit"), nil
}

// OpenCache opens the cache of a cluster, which the UID of the namespace kube-system identifies. It deletes the oldest days if the
// cache is too large. If the directory cannot be used, for example because it belongs to another user, the cache has no effect, and
// the first Part has a note.
func OpenCache(dir, clusterUID string) *Cache {
	c := &Cache{dir: filepath.Join(dir, clusterUID)}
	if !fileName.MatchString(clusterUID) {
		c.note = fmt.Sprintf("The cache is not used: %q is not a valid UID of a cluster.", clusterUID)
		return c
	}
	err := os.MkdirAll(c.dir, 0o700)
	if err == nil {
		err = os.Chmod(c.dir, 0o700) // fails if another user owns it
	}
	if err == nil {
		err = c.trim(maxCache)
	}
	if err != nil {
		c.note = fmt.Sprintf("The cache is not used: %v.", err)
	}
	return c
}

// WithoutCache returns a cache that has no effect. The first Part has a note with the cause.
func WithoutCache(cause error) *Cache {
	return &Cache{note: fmt.Sprintf("The cache is not used: %v.", cause)}
}

// trim deletes the files of the oldest days until the cache has at most a number of bytes, and files that are too old, such as
// temporary files of killed processes.
func (c *Cache) trim(limit int64) error {
	type file struct {
		path, day string
		size      int64
	}
	var files []file
	total := int64(0)
	err := filepath.WalkDir(c.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted by another process
		}
		if err != nil {
			return err
		}
		age := time.Since(info.ModTime())
		switch {
		case strings.HasSuffix(path, temporary) && age > time.Hour, strings.HasSuffix(path, cacheSuffix) && age > maxAge:
			_ = os.Remove(path)
		case strings.HasSuffix(path, cacheSuffix):
			files = append(files, file{path, filepath.Base(filepath.Dir(path)), info.Size()})
			total += info.Size()
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Or(strings.Compare(a.day, b.day), strings.Compare(a.path, b.path)) })
	for _, f := range files {
		if total <= limit {
			break
		}
		if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= f.size
		_ = os.Remove(filepath.Dir(f.path)) // fails unless it is empty
	}
	return nil
}

// temporary is the end of the names of files that are being written.
const temporary = ".tmp"

type cachedDay struct {
	dir, note string
}

// day returns the cache of a day. Files are used only for the same address and queries.
func (c *Cache) day(address string, queries []string, start time.Time) *cachedDay {
	sum := sha256.Sum256([]byte(fmt.Sprint(cacheVersion, "\n", address, "\n", strings.Join(queries, "\n"))))
	return &cachedDay{filepath.Join(c.dir, hex.EncodeToString(sum[:8]), start.Format(time.DateOnly)), c.note}
}

// load adds the stored namespaces to a table. It returns the others, and notes.
func (d *cachedDay) load(to *table, namespaces []string) (missing, notes []string) {
	if d.note != "" {
		return namespaces, []string{d.note}
	}
	for _, name := range namespaces {
		err := d.loadNamespace(to, name)
		if err != nil {
			missing = append(missing, name)
			if !errors.Is(err, fs.ErrNotExist) {
				notes = append(notes, fmt.Sprintf("A file of the cache is ignored: %v.", err))
			}
		}
	}
	return missing, notes
}

func (d *cachedDay) path(namespace string) string { return filepath.Join(d.dir, namespace+cacheSuffix) }

func (d *cachedDay) loadNamespace(to *table, namespace string) error {
	if !fileName.MatchString(namespace) {
		return fs.ErrNotExist
	}
	path := d.path(namespace)
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return fmt.Errorf("%s has %d bytes, and at most %d are allowed", path, info.Size(), maxFile)
	}
	data, err := unzip(file)
	if err == nil {
		err = to.decode(data, namespace)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func unzip(from io.Reader) ([]byte, error) {
	z, err := gzip.NewReader(from)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(z, maxDecoded+1))
	if err == nil && len(data) > maxDecoded {
		err = fmt.Errorf("the content has more than %d bytes", maxDecoded)
	}
	return data, err
}

// store writes the files of namespaces. After the first error it writes no more.
func (d *cachedDay) store(from *table, namespaces []string) (notes []string) {
	if d.note != "" || len(namespaces) == 0 {
		return nil
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return []string{fmt.Sprintf("The cache cannot be written: %v.", err)}
	}
	for _, name := range namespaces {
		if !fileName.MatchString(name) {
			continue
		}
		if err := d.write(name, from.encode(name)); err != nil {
			return []string{fmt.Sprintf("The cache cannot be written: %v.", err)}
		}
	}
	return nil
}

// write replaces a file atomically.
func (d *cachedDay) write(namespace string, content []byte) error {
	var zipped bytes.Buffer
	z, _ := gzip.NewWriterLevel(&zipped, gzip.BestSpeed) // the level is a valid constant
	_, _ = z.Write(content)                              // a bytes.Buffer does not fail
	_ = z.Close()
	if zipped.Len() > maxFile {
		return nil // it would be ignored
	}
	file, err := os.CreateTemp(d.dir, namespace+".*"+temporary) // with mode 0600
	if err != nil {
		return err
	}
	_, err = file.Write(zipped.Bytes())
	err = cmp.Or(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), d.path(namespace))
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

func (t *table) encode(namespace string) []byte {
	c := codec.NewEncoder(nil)
	t.code(c, namespace)
	return c.Data()
}

// decode adds the content of the file of a namespace. After an error the table is unchanged.
func (t *table) decode(data []byte, namespace string) error {
	rows := newTable(t.day)
	c := codec.NewDecoder(data)
	rows.code(c, namespace)
	if err := c.Finish("the file"); err != nil {
		return err
	}
	if len(t.rows)+len(rows.rows) > maxRows {
		return errTooMany
	}
	maps.Copy(t.rows, rows.rows)
	return nil
}

// code encodes or decodes the content of the file of a namespace: version, day, namespace, and rows with their cells.
func (t *table) code(c *codec.Coder, namespace string) {
	version := uint64(cacheVersion)
	codec.Uvarint(c, "version", &version, math.MaxUint32)
	if version != cacheVersion {
		c.Fail("version must be %d, got %d", cacheVersion, version)
	}
	start := t.day.Unix()
	codec.Varint(c, "day", &start, 0, math.MaxInt64)
	if start != t.day.Unix() {
		c.Fail("the file is of another day")
	}
	name := namespace
	c.String("namespace", &name, maxLabel)
	if name != namespace {
		c.Fail("the file is of another namespace")
	}
	ids := t.sorted(namespace)
	n := c.Count("rows", len(ids), maxRows)
	for i := 0; i < n && c.Err() == nil; i++ {
		id := identity{namespace: namespace}
		if !c.Decoding() {
			id = ids[i]
		}
		for _, text := range []*string{&id.workload, &id.kind, &id.pod, &id.container} {
			c.String("label", text, maxLabel)
		}
		if c.Decoding() {
			t.rows[id] = new([hoursPerDay]cell)
		}
		row := t.rows[id]
		for hour := range row {
			row[hour].code(c)
		}
	}
}

// code encodes or decodes a cell: the bits of the values that are not 0, and these values.
func (c *cell) code(to *codec.Coder) {
	values := [measureCount]uint64{CPU: uint64(c.cpu), Memory: c.memory, Kills: uint64(c.kills), Throttled: uint64(c.throttled), KilledRequest: c.request}
	bits := byte(0)
	for m, v := range values {
		if v > 0 {
			bits |= 1 << m
		}
	}
	codec.Byte(to, "cell", &bits, 1<<measureCount-1)
	for m, limit := range [measureCount]uint64{CPU: 1e8 + 1, Memory: 1e14 + 1, Kills: math.MaxUint16, Throttled: 1000, KilledRequest: 1e14} {
		if bits&(1<<m) != 0 {
			codec.Uvarint(to, Measure(m).String(), &values[m], limit)
		}
	}
	if to.Decoding() {
		*c = cell{
			cpu: uint32(values[CPU]), memory: values[Memory], kills: uint16(values[Kills]), throttled: uint16(values[Throttled]), request: values[KilledRequest],
		}
	}
}
