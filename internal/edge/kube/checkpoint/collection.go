// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// StorageOptions select the objects that are read and written.
type StorageOptions struct {
	Namespace string   // only objects of this namespace; "" means all
	Ignored   []string // no objects of these namespaces
	Log       *slog.Logger
}

// withLog returns options whose Log is set.
func (o StorageOptions) withLog() StorageOptions {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// storedPageSize bounds the objects in memory while they are listed: each can have the maximum size of an object, 1.5 MiB, because the CRD of
// checkpoints, and former CRDs of UsageHistories, have no bounds.
const storedPageSize = 50

// An object is a stored object whose key can be read although its status may be invalid.
type object[K comparable] interface {
	decode(raw []byte, most int) error // drops the status of an object of more than most bytes
	key() (K, error)
	meta() *metav1.ObjectMeta
	at() storedAt // what is known about the object if its content is not
}

// A storedAt is what is known about a stored object.
type storedAt struct {
	name      string
	version   string    // "" if the object may not exist: the answer to its creation was lost
	annotated bool      // a checkpoint has annotations, possibly not from podfit
	uid       types.UID // of an UpdateState
	sum       uint64    // a checksum of the content of a UsageHistory or UpdateState; 0 differs from every checksum
}

// A collection has the stored objects of a kind. It keeps of each object, by its key, what a storedAt has, but not the content. It is safe
// for several goroutines.
type collection[K comparable, O object[K]] struct {
	options  StorageOptions
	client   rest.Interface
	resource schema.GroupVersionResource

	singular  string                             // one object in errors
	plural    string                             // several objects in errors
	others    string                             // what else may have the names of an object, in errors
	most      int                                // size of an object, in bytes of JSON, above which its status is ignored
	empty     func() O                           // returns a new object
	name      func(K) string                     // the usual name of the object with a key
	otherName func(K) string                     // its name if the usual one is in use
	skip      func(o O, decoded bool, err error) // logs an object of a list that has no key, or cannot be decoded

	mu    sync.Mutex
	known map[K]storedAt
}

func (c *collection[K, O]) names(key K) [2]string {
	return [...]string{c.name(key), c.otherName(key)}
}

// list calls each for every object of the selected namespaces, page by page, and skip for those without a key.
func (c *collection[K, O]) list(ctx context.Context, each func(O, K)) error {
	return kube.EachPage(ctx, metav1.ListOptions{Limit: storedPageSize}, c.page, func(page *storedPage) error {
		for _, item := range page.Items {
			c.visit(item, each)
		}
		return nil
	})
}

type storedPage struct {
	metav1.ListMeta `json:"metadata"`
	Items           []json.RawMessage `json:"items"`
}

func (c *collection[K, O]) page(ctx context.Context, options metav1.ListOptions) (*storedPage, error) {
	const pageTimeout = time.Minute // of the request for one page of a list
	limited, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	raw, err := kube.Body(c.client.Get().Namespace(c.options.Namespace).Resource(c.resource.Resource).VersionedParams(&options, metav1.ParameterCodec).Do(limited))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", c.plural, c.refused(ctx, err))
	}
	page := new(storedPage)
	if err := json.Unmarshal(raw, page); err != nil {
		return nil, fmt.Errorf("decode list of %s: %w", c.plural, err)
	}
	return page, nil
}

// visit calls each for one object of a list.
func (c *collection[K, O]) visit(item json.RawMessage, each func(O, K)) {
	o := c.empty()
	if err := o.decode(item, c.most); err != nil {
		c.skip(o, false, err)
		return
	}
	if slices.Contains(c.options.Ignored, o.meta().Namespace) {
		return
	}
	key, err := o.key()
	if err != nil {
		c.skip(o, true, err)
		return
	}
	each(o, key)
}

// refused is kube.Refused. For podfit's own kinds, ErrUnsupported and ErrForbidden are certainly of the API server: podfit runs without the
// stored objects then. Stored histories are replaced by shorter ones later, and the updater acts without records.
func (c *collection[K, O]) refused(ctx context.Context, err error) error {
	if c.resource.Group != v1alpha1.GroupName {
		return kube.Refused(err)
	}
	return kube.RefusedFor(ctx, c.client, c.resource, err)
}

// load calls take for one object of each key: the one with the usual name, or else the first one. It calls leave for the others.
func (c *collection[K, O]) load(ctx context.Context, take func(O, K), leave func(O)) error {
	type stray struct {
		object O
		key    K
	}
	var strays []stray
	taken := make(map[K]bool)
	err := c.list(ctx, func(o O, key K) {
		if o.meta().Name != c.name(key) {
			strays = append(strays, stray{o, key})
			return
		}
		taken[key] = true
		take(o, key)
	})
	for _, s := range strays {
		if taken[s.key] {
			leave(s.object)
			continue
		}
		taken[s.key] = true
		take(s.object, s.key)
	}
	return err
}

// find returns the object with a key, and false if there is none. kind names the kind in errors.
func (c *collection[K, O]) find(ctx context.Context, key K, namespace, kind string) (o O, found bool, err error) {
	for _, name := range c.names(key) {
		o, err = c.read(ctx, key, namespace, name)
		switch {
		case err == nil:
			return o, true, nil
		case !apierrors.IsNotFound(err) && !errors.Is(err, errForeign):
			return o, false, fmt.Errorf("read %s %s/%s: %w", kind, namespace, name, err)
		}
	}
	return o, false, nil
}

// errForeign is the error of a read if the name is in use by an object with another key.
var errForeign = errors.New("the history is of another workload")

// read reads the object with a key and a name. The error is errForeign if the object has another key.
func (c *collection[K, O]) read(ctx context.Context, key K, namespace, name string) (o O, err error) {
	raw, err := kube.Body(c.client.Get().Namespace(namespace).Resource(c.resource.Resource).Name(name).Do(ctx))
	if err != nil {
		return o, err
	}
	o = c.empty()
	err = o.decode(raw, c.most)
	if err == nil {
		err = checkAnswer(o.meta())
	}
	if err != nil {
		return o, fmt.Errorf("decode %s %s: %w", c.singular, name, err)
	}
	if owner, err := o.key(); err != nil || owner != key {
		return o, errForeign
	}
	return o, nil
}

// refresh reads the version of the object with a key and a name. The error is errForeign if the object has another key.
func (c *collection[K, O]) refresh(ctx context.Context, key K, namespace, name string) (at storedAt, err error) {
	o, err := c.read(ctx, key, namespace, name)
	if err != nil {
		return at, err
	}
	c.learn(key, o.at())
	return o.at(), nil
}

// An objectWriter stores content in the object with a key.
type objectWriter interface {
	create(ctx context.Context, name string) error
	// replace replaces the status of an object, if it still has the known version.
	replace(ctx context.Context, at storedAt) error
	// overwrite stores the content in an object that another client has created, or changed if conflict is the error of replace. The error is
	// errForeign if the object has another key.
	overwrite(ctx context.Context, name string, conflict error) error
}

// store stores content in the object with a key, and creates the object if there is none.
func (c *collection[K, O]) store(ctx context.Context, key K, w objectWriter) error {
	if at, ok := c.at(key); ok {
		err := w.replace(ctx, at)
		switch {
		case apierrors.IsNotFound(err) && !kube.IsNoHandler(err):
			c.forget(key)
		case apierrors.IsConflict(err):
			return w.overwrite(ctx, at.name, err)
		case !errors.Is(err, errForeign):
			return err
		}
	}
	for _, name := range c.names(key) {
		err := w.create(ctx, name)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		if err := w.overwrite(ctx, name, nil); !errors.Is(err, errForeign) {
			return err
		}
	}
	names := c.names(key)
	return fmt.Errorf("both names for it, %s and %s, are in use by %s; delete one of these objects", names[0], names[1], c.others)
}

// post creates an object, which is a runtime.Object or JSON.
func (c *collection[K, O]) post(ctx context.Context, namespace string, o any) (O, error) {
	return c.answer(kube.Body(c.client.Post().Namespace(namespace).Resource(c.resource.Resource).
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body(o).Do(ctx)))
}

// patch replaces the status of an object, if it still has the known version, and makes further changes.
func (c *collection[K, O]) patch(ctx context.Context, namespace string, at storedAt, status any, more ...kube.PatchOp) (O, error) {
	data, err := kube.StatusPatch(at.version, status, more...)
	if err != nil {
		return c.answer(nil, err)
	}
	return c.answer(kube.Body(c.client.Patch(types.JSONPatchType).Namespace(namespace).Resource(c.resource.Resource).Name(at.name).
		Body(data).Do(ctx)))
}

// answer decodes the response to a write, of any size.
func (c *collection[K, O]) answer(raw []byte, err error) (o O, _ error) {
	if err != nil {
		return o, err
	}
	o = c.empty()
	if err := o.decode(raw, len(raw)); err != nil {
		return o, fmt.Errorf("decode response: %w", err)
	}
	return o, checkAnswer(o.meta())
}

// deleteUnchanged deletes an object if it still has the UID and the version of m, so that no object that another client has created or
// changed since is deleted. Without a UID, only the version counts.
func (c *collection[K, O]) deleteUnchanged(ctx context.Context, m *metav1.ObjectMeta) error {
	preconditions := metav1.Preconditions{ResourceVersion: &m.ResourceVersion}
	if m.UID != "" {
		preconditions.UID = &m.UID
	}
	return c.client.Delete().Namespace(m.Namespace).Resource(c.resource.Resource).Name(m.Name).
		Body(&metav1.DeleteOptions{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: &preconditions,
		}).Do(ctx).Error()
}

// An orphan is an object that is not used any more.
type orphan[K comparable] struct {
	key  K
	meta metav1.ObjectMeta // without the annotations, which may be large
}

// orphans lists the objects that are unused, or have neither the known nor the usual name. Objects that do not exist any more, for example
// of a deleted namespace, are not known afterwards, so that they are written again.
func (c *collection[K, O]) orphans(ctx context.Context, isUnused func(K) bool) ([]orphan[K], error) {
	var out []orphan[K]
	listed := make(map[K]bool)
	err := c.list(ctx, func(o O, key K) {
		listed[key] = true
		m := o.meta()
		at, ok := c.at(key)
		isStray := ok && at.name != m.Name && m.Name != c.name(key)
		if isStray || isUnused(key) {
			out = append(out, orphan[K]{key, metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}})
		}
	})
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		maps.DeleteFunc(c.known, func(key K, _ storedAt) bool { return !listed[key] })
	}
	return out, err
}

// collect deletes orphans, and returns their number. One that was written after it was listed is not deleted. listErr is the error of the
// list, which is returned together with those of the deletions.
func (c *collection[K, O]) collect(ctx context.Context, orphans []orphan[K], listErr error) (int, error) {
	const maxErrors = 10 // that are returned
	errs := []error{listErr}
	deleted, failed := 0, 0
	for i := range orphans {
		if failed > 0 && ctx.Err() != nil {
			break
		}
		m := &orphans[i].meta
		err := c.deleteUnchanged(ctx, m)
		if err == nil || apierrors.IsNotFound(err) {
			if at, ok := c.at(orphans[i].key); ok && at.name == m.Name {
				c.forget(orphans[i].key)
			}
		}
		switch {
		case err == nil:
			deleted++
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		default:
			if failed++; failed <= maxErrors {
				errs = append(errs, fmt.Errorf("delete %s %s/%s: %w", c.singular, m.Namespace, m.Name, kube.Refused(err)))
			}
		}
	}
	if failed > maxErrors {
		errs = append(errs, fmt.Errorf("%d more deletions failed", failed-maxErrors))
	}
	return deleted, errors.Join(errs...)
}

// learn records what is known about the object with a key.
func (c *collection[K, O]) learn(key K, at storedAt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cluster.Put(&c.known, key, at)
}

func (c *collection[K, O]) at(key K) (storedAt, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.known[key]
	return at, ok
}

func (c *collection[K, O]) forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, key)
}

// forgetAll removes what is known about all objects.
func (c *collection[K, O]) forgetAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.known)
}
