// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

// An Object is one version of a stored object. It is never changed.
type Object struct {
	Namespace, Name string
	UID             string
	Labels          labels.Set
	Version         int64
	Kind            *Kind
	Pod             *Pod // nil for other kinds

	raw    []byte // protobuf of built-in kinds, JSON of custom resources
	meta   []byte // protobuf of the metadata
	reason string // of an event
}

// A Pod is what the server knows about a pod without decoding it.
type Pod struct {
	Phase, Node string
	Started     time.Time
	Containers  []string
	Owner       string // the name of its controller
}

func (o *Object) key() key { return key{o.Namespace, o.Name} }

// A key identifies an object of a collection.
type key struct{ namespace, name string }

func (k key) compare(other key) int {
	return cmp.Or(strings.Compare(k.namespace, other.namespace), strings.Compare(k.name, other.name))
}

// Decode decodes an object of a built-in kind.
func (o *Object) Decode() Message {
	m := o.Kind.New()
	if err := m.Unmarshal(o.raw); err != nil {
		panic(fmt.Sprintf("decode %s %v: %v", o.Kind.Resource, o.key(), err)) // the server encoded it
	}
	return m
}

// JSON returns the object in JSON.
func (o *Object) JSON() []byte {
	if o.Kind.New == nil {
		return o.raw
	}
	m := o.Decode()
	m.GetObjectKind().SetGroupVersionKind(o.Kind.groupVersion().WithKind(o.Kind.Name))
	b, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("encode %s %v: %v", o.Kind.Resource, o.key(), err))
	}
	return b
}

// An event is a change of an object.
type event struct {
	version     int64
	kind        watch.EventType
	object, old *Object
}

// A collection contains the objects of one kind.
type collection struct {
	kind    *Kind
	objects map[key]*Object
	keys    []key // in order; nil until the first list
	events  []event
	expired int64         // watches from a version before this one fail with status 410
	wake    chan struct{} // closed at the next event
}

// A snapshot is a list that a client reads in pages.
type snapshot struct {
	version int64
	objects []*Object
	at      time.Time
}

type store struct {
	o Options

	mu          sync.Mutex
	version     int64
	uids        int64
	collections map[string]*collection // by group/resource
	snapshots   map[string]*snapshot   // by continue token without the position
}

func newStore(o Options) *store {
	s := &store{o: o, version: 1000, collections: make(map[string]*collection), snapshots: make(map[string]*snapshot)}
	for _, k := range kinds {
		s.collections[k.Group+"/"+k.Resource] = &collection{kind: k, objects: make(map[key]*Object), wake: make(chan struct{})}
	}
	return s
}

// order returns the keys of the objects in order. The caller holds the mutex.
func (c *collection) order() []key {
	if c.keys == nil {
		c.keys = make([]key, 0, len(c.objects))
		for k := range c.objects {
			c.keys = append(c.keys, k)
		}
		slices.SortFunc(c.keys, key.compare)
	}
	return c.keys
}

// added and removed keep the order up to date. The caller holds the mutex.
func (c *collection) added(k key) {
	if at, found := slices.BinarySearchFunc(c.keys, k, key.compare); c.keys != nil && !found {
		c.keys = slices.Insert(c.keys, at, k)
	}
}

func (c *collection) removed(k key) {
	if at, found := slices.BinarySearchFunc(c.keys, k, key.compare); found {
		c.keys = slices.Delete(c.keys, at, at+1)
	}
}

// within returns the objects of a namespace, "" for all, that a selector selects. The caller holds the mutex.
func (c *collection) within(namespace string, sel selector) []*Object {
	all := c.order()
	if namespace != "" {
		from := sort.Search(len(all), func(i int) bool { return all[i].namespace >= namespace })
		to := sort.Search(len(all), func(i int) bool { return all[i].namespace > namespace })
		all = all[from:to]
	}
	out := make([]*Object, 0, len(all))
	for _, k := range all {
		if o := c.objects[k]; sel.everything() || sel.matches(o) {
			out = append(out, o)
		}
	}
	return out
}

// list returns the objects and the version of the list.
func (s *store) list(c *collection, namespace string, sel selector) ([]*Object, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.within(namespace, sel), s.version
}

func (s *store) get(c *collection, k key) *Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.objects[k]
}

// page returns the page that begins at a position of a snapshot, and the token of the next page, "" after the last one.
func page(list *snapshot, from, limit int) ([]*Object, string) {
	to := len(list.objects)
	if limit <= 0 || from+limit >= to {
		return list.objects[from:], ""
	}
	to = from + limit
	return list.objects[from:to], fmt.Sprintf("%d.%d", list.version, to)
}

// keep stores a snapshot for later pages, and drops those that are too old.
func (s *store) keep(scope string, list *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, old := range s.snapshots {
		if list.at.Sub(old.at) > s.o.SnapshotTTL {
			delete(s.snapshots, id)
		}
	}
	s.snapshots[fmt.Sprintf("%s@%d", scope, list.version)] = list
}

// resume returns the snapshot and the position of a continue token, or nil if it has expired.
func (s *store) resume(scope, token string, now time.Time) (*snapshot, int) {
	version, position, _ := strings.Cut(token, ".")
	from, err := strconv.Atoi(position)
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.snapshots[scope+"@"+version]
	if err != nil || list == nil || now.Sub(list.at) > s.o.SnapshotTTL || from < 0 || from > len(list.objects) {
		return nil, 0
	}
	return list, from
}

// next returns a new version.
func (s *store) next() int64 {
	s.version++
	return s.version
}

// put stores a new version of an object, and returns it. The caller holds the mutex and has set the version.
func (s *store) put(c *collection, o *Object) *Object {
	old := c.objects[o.key()]
	kind := watch.Modified
	if old == nil {
		kind = watch.Added
		c.added(o.key())
	}
	c.objects[o.key()] = o
	s.record(c, event{version: o.Version, kind: kind, object: o, old: old})
	return o
}

// record adds an event and wakes the watches. The caller holds the mutex.
func (s *store) record(c *collection, e event) {
	c.events = append(c.events, e)
	if len(c.events) > 2*s.o.Events {
		drop := len(c.events) - s.o.Events
		c.expired = c.events[drop-1].version
		c.events = slices.Clone(c.events[drop:])
	}
	close(c.wake)
	c.wake = make(chan struct{})
	switch {
	case s.o.Changed == nil:
	case e.kind == watch.Deleted:
		s.o.Changed(nil, e.old)
	default:
		s.o.Changed(e.object, e.old)
	}
}

// expire forgets all events, so that each watch must begin with a list again.
func (s *store) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.collections {
		c.expired = s.next()
		c.events = nil
		close(c.wake)
		c.wake = make(chan struct{})
	}
}

// since returns the events after a version, and a channel that is closed at the next one. ok is false if events are missing.
func (s *store) since(c *collection, version int64) (events []event, now int64, wake <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version < c.expired {
		return nil, s.version, nil, false
	}
	from := sort.Search(len(c.events), func(i int) bool { return c.events[i].version > version })
	return c.events[from:len(c.events):len(c.events)], s.version, c.wake, true
}

// seal encodes an object of a built-in kind.
func seal(k *Kind, m Message, version int64) (*Object, error) {
	m.SetResourceVersion(strconv.FormatInt(version, 10))
	m.GetObjectKind().SetGroupVersionKind(k.groupVersion().WithKind(""))
	raw, err := m.Marshal()
	if err != nil {
		return nil, err
	}
	o := &Object{
		Namespace: m.GetNamespace(), Name: m.GetName(), UID: string(m.GetUID()), Labels: m.GetLabels(), Version: version, Kind: k,
		raw: raw, meta: firstField(raw),
	}
	switch m := m.(type) {
	case *corev1.Pod:
		o.Pod = podOf(m)
	case *corev1.Event:
		o.reason = m.Reason
	}
	return o, nil
}

func podOf(p *corev1.Pod) *Pod {
	out := &Pod{Phase: string(p.Status.Phase), Node: p.Spec.NodeName, Started: p.CreationTimestamp.Time}
	if p.Status.StartTime != nil {
		out.Started = p.Status.StartTime.Time
	}
	for i := range p.Spec.Containers {
		out.Containers = append(out.Containers, p.Spec.Containers[i].Name)
	}
	for _, r := range p.OwnerReferences {
		out.Owner = r.Name
	}
	return out
}

// A custom is a custom resource whose fields other than the metadata are not decoded.
type custom struct {
	meta metav1.ObjectMeta
	rest map[string]json.RawMessage
}

func parseCustom(raw []byte) (*custom, error) {
	c := new(custom)
	if err := json.Unmarshal(raw, &c.rest); err != nil {
		return nil, err
	}
	if m, ok := c.rest["metadata"]; ok {
		if err := json.Unmarshal(m, &c.meta); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// sealCustom encodes a custom resource.
func sealCustom(k *Kind, c *custom, version int64) (*Object, error) {
	c.meta.ResourceVersion = strconv.FormatInt(version, 10)
	meta, err := json.Marshal(&c.meta)
	if err != nil {
		return nil, err
	}
	c.rest["metadata"] = meta
	c.rest["apiVersion"] = json.RawMessage(strconv.Quote(k.APIVersion()))
	c.rest["kind"] = json.RawMessage(strconv.Quote(k.Name))
	raw, err := json.Marshal(c.rest)
	if err != nil {
		return nil, err
	}
	proto, err := c.meta.Marshal()
	return &Object{
		Namespace: c.meta.Namespace, Name: c.meta.Name, UID: string(c.meta.UID), Labels: c.meta.Labels, Version: version, Kind: k,
		raw: raw, meta: proto,
	}, err
}
