// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
)

// Checkpoints reads and writes VerticalPodAutoscalerCheckpoints. It keeps the names and versions of the objects, not their
// content. It is safe for several goroutines.
type Checkpoints struct {
	client    rest.Interface
	namespace string
	ignored   []string
	log       *slog.Logger

	mu    sync.Mutex
	known map[Key]checkpointAt
}

// A checkpointAt is the name and version of a stored checkpoint.
type checkpointAt struct {
	name, version string
	annotated     bool // it has annotations, possibly not from podfit
}

// StorageOptions select the objects that are read and written.
type StorageOptions struct {
	Namespace string   // only objects of this namespace; "" means all
	Ignored   []string // no objects of these namespaces
	Log       *slog.Logger
}

// NewCheckpoints returns a client of the checkpoints that the options select.
func NewCheckpoints(c *kube.Clients, o StorageOptions) *Checkpoints {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Checkpoints{
		client:    c.Autoscalers,
		namespace: o.Namespace,
		ignored:   o.Ignored,
		log:       o.Log,
		known:     make(map[Key]checkpointAt),
	}
}

// Load lists all checkpoints and returns them by key. A checkpoint that cannot be decoded is logged and skipped.
func (c *Checkpoints) Load(ctx context.Context) (map[Key]usage.Checkpoint, error) {
	all := make(map[Key]usage.Checkpoint)
	var strays []checkpointObject // objects without the usual name; those with the usual name have priority
	taken := make(map[Key]bool)
	take := func(o *checkpointObject) {
		c.learn(o)
		taken[o.key()] = true
		p, err := o.checkpoint()
		if err != nil {
			c.log.Warn("Skipped a checkpoint that cannot be decoded", slog.Any("error", err))
			return
		}
		all[o.key()] = p
	}
	err := c.list(ctx, func(o *checkpointObject) {
		if o.Metadata.Name != checkpointName(o.key()) {
			strays = append(strays, *o)
			return
		}
		take(o)
	})
	for i := range strays {
		if !taken[strays[i].key()] {
			take(&strays[i])
		}
	}
	return all, err
}

// Write stores a checkpoint, and creates its object if there is none. ErrConflict means that another client has written it in
// the meantime; the next Write overwrites that.
func (c *Checkpoints) Write(ctx context.Context, key Key, p usage.Checkpoint) error {
	err := c.write(ctx, key, &p)
	if err != nil {
		return fmt.Errorf("write checkpoint of %s, container %s: %w", key.Autoscaler, key.Container, kube.Refused(err))
	}
	return nil
}

func (c *Checkpoints) write(ctx context.Context, key Key, p *usage.Checkpoint) error {
	if at, ok := c.at(key); ok {
		err := c.patch(ctx, key, at, p)
		switch {
		case apierrors.IsNotFound(err):
			c.forget(key)
		case apierrors.IsConflict(err):
			_, readErr := c.read(ctx, key, at.name)
			return errors.Join(err, readErr)
		default:
			return err
		}
	}
	for _, name := range [...]string{checkpointName(key), alternateName(key)} {
		err := c.create(ctx, key, name, p)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		at, err := c.read(ctx, key, name)
		if err != nil {
			return err
		}
		if at.name != "" {
			return c.patch(ctx, key, at, p)
		}
	}
	return errors.New("both names are in use by checkpoints of other containers")
}

func (c *Checkpoints) create(ctx context.Context, key Key, name string, p *usage.Checkpoint) error {
	o := &v1.VerticalPodAutoscalerCheckpoint{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion().String(), Kind: "VerticalPodAutoscalerCheckpoint"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Autoscaler.Namespace, Name: name},
		Spec:       v1.VerticalPodAutoscalerCheckpointSpec{VPAObjectName: key.Autoscaler.Name, ContainerName: key.Container},
		Status:     checkpointStatus(p),
	}
	o.Annotations = checkpointAnnotations(p)
	return c.answer(kube.Body(c.client.Post().Namespace(key.Autoscaler.Namespace).Resource(v1.ResourceCheckpoints).
		Body(o).Do(ctx)))
}

// patch replaces the status of a checkpoint, if it still has the known version.
func (c *Checkpoints) patch(ctx context.Context, key Key, at checkpointAt, p *usage.Checkpoint) error {
	ops := []kube.PatchOp{
		{Op: "replace", Path: "/metadata/resourceVersion", Value: at.version},
		{Op: "add", Path: "/status", Value: checkpointStatus(p)},
	}
	annotations := checkpointAnnotations(p)
	if at.annotated {
		for _, name := range slices.Sorted(maps.Keys(annotations)) {
			ops = append(ops, kube.PatchOp{Op: "add", Path: "/metadata/annotations/" + strings.ReplaceAll(name, "/", "~1"), Value: annotations[name]})
		}
	} else if len(annotations) > 0 {
		ops = append(ops, kube.PatchOp{Op: "add", Path: "/metadata/annotations", Value: annotations})
	}
	data, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	return c.answer(kube.Body(c.client.Patch(types.JSONPatchType).Namespace(key.Autoscaler.Namespace).
		Resource(v1.ResourceCheckpoints).Name(at.name).Body(data).Do(ctx)))
}

// answer records the version of a checkpoint in the response to a write.
func (c *Checkpoints) answer(raw []byte, err error) error {
	if err != nil {
		return err
	}
	var o checkpointObject
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("decode response: %w", err)
	}
	if err := checkAnswer(&o.Metadata); err != nil {
		return err
	}
	c.learn(&o)
	return nil
}

// read reads the checkpoint with a name. If it has another key, the returned name is empty.
func (c *Checkpoints) read(ctx context.Context, key Key, name string) (checkpointAt, error) {
	raw, err := kube.Body(c.client.Get().Namespace(key.Autoscaler.Namespace).Resource(v1.ResourceCheckpoints).Name(name).Do(ctx))
	if err != nil {
		return checkpointAt{}, err
	}
	var o checkpointObject
	if err := json.Unmarshal(raw, &o); err != nil {
		return checkpointAt{}, fmt.Errorf("decode checkpoint %s: %w", name, err)
	}
	if err := checkAnswer(&o.Metadata); err != nil {
		return checkpointAt{}, fmt.Errorf("decode checkpoint %s: %w", name, err)
	}
	if o.key() != key {
		return checkpointAt{}, nil
	}
	return c.learn(&o), nil
}

// Unused selects checkpoints that are not used any more.
type Unused struct {
	Existing map[cluster.Key]bool // the autoscalers of all recommenders; the checkpoints of other autoscalers are not used
	Expired  map[Key]bool         // containers whose history expired
}

// Has reports whether a checkpoint is not used any more.
func (u Unused) Has(key Key) bool { return !u.Existing[key.Autoscaler] || u.Expired[key] }

// Collect deletes the unused checkpoints, and returns their number. A checkpoint that was written after it was listed is not deleted.
func (c *Checkpoints) Collect(ctx context.Context, unused Unused) (int, error) {
	var orphans []checkpointObject
	listed := make(map[Key]bool)
	err := c.list(ctx, func(o *checkpointObject) {
		listed[o.key()] = true
		at, ok := c.at(o.key())
		stray := ok && at.name != o.Metadata.Name && o.Metadata.Name != checkpointName(o.key())
		if stray || unused.Has(o.key()) {
			m := &o.Metadata // without the annotations, which may be large
			orphans = append(orphans, checkpointObject{Spec: o.Spec, Metadata: metav1.ObjectMeta{
				Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
			}})
		}
	})
	if err == nil {
		c.retain(listed)
	}
	errs := kube.FewErrors{All: []error{err}}
	deleted := 0
	for i := range orphans {
		err := c.delete(ctx, &orphans[i])
		switch {
		case err == nil:
			deleted++
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		default:
			errs.Add(fmt.Errorf("delete checkpoint %s/%s: %w", orphans[i].Metadata.Namespace, orphans[i].Metadata.Name, kube.Refused(err)))
			if ctx.Err() != nil {
				return deleted, errs.Join()
			}
		}
	}
	return deleted, errs.Join()
}

// deleteUnchanged deletes an object if it still has the UID and the version of m, so that no object that another client has created or
// changed since is deleted.
func deleteUnchanged(ctx context.Context, client rest.Interface, resource string, m *metav1.ObjectMeta) error {
	return client.Delete().Namespace(m.Namespace).Resource(resource).Name(m.Name).
		Body(&metav1.DeleteOptions{
			TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
			Preconditions: &metav1.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion},
		}).Do(ctx).Error()
}

func (c *Checkpoints) delete(ctx context.Context, o *checkpointObject) error {
	err := deleteUnchanged(ctx, c.client, v1.ResourceCheckpoints, &o.Metadata)
	if err == nil || apierrors.IsNotFound(err) {
		if at, ok := c.at(o.key()); ok && at.name == o.Metadata.Name {
			c.forget(o.key())
		}
	}
	return err
}

// Delete deletes one checkpoint, if it is known.
func (c *Checkpoints) Delete(ctx context.Context, key Key) error {
	at, ok := c.at(key)
	if !ok {
		return nil
	}
	err := c.client.Delete().Namespace(key.Autoscaler.Namespace).Resource(v1.ResourceCheckpoints).Name(at.name).Do(ctx).Error()
	if err == nil || apierrors.IsNotFound(err) {
		c.forget(key)
		return nil
	}
	return fmt.Errorf("delete checkpoint of %s, container %s: %w", key.Autoscaler, key.Container, kube.Refused(err))
}

// list calls each for every checkpoint of the selected namespaces, page by page.
func (c *Checkpoints) list(ctx context.Context, each func(*checkpointObject)) error {
	o := metav1.ListOptions{Limit: storedPageSize}
	for {
		raw, err := readPage(ctx, c.client.Get().Namespace(c.namespace).Resource(v1.ResourceCheckpoints).
			VersionedParams(&o, kube.ListParameters))
		if err != nil {
			return fmt.Errorf("list checkpoints: %w", kube.Refused(err))
		}
		var page struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return fmt.Errorf("decode list of checkpoints: %w", err)
		}
		for i := range page.Items {
			item := new(checkpointObject)
			if err := item.decode(page.Items[i]); err != nil {
				c.log.Warn("Skipped a checkpoint that cannot be decoded", slog.Any("error", err))
				continue
			}
			if !slices.Contains(c.ignored, item.Metadata.Namespace) {
				each(item)
			}
		}
		o.Continue = page.Metadata.Continue
		if o.Continue == "" {
			return nil
		}
	}
}

// pageTimeout bounds the request for one page of a list.
const pageTimeout = time.Minute

// readPage sends a request for one page of a list.
func readPage(ctx context.Context, r *rest.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return kube.Body(r.Do(ctx))
}

// learn records the name and version of a checkpoint.
func (c *Checkpoints) learn(o *checkpointObject) checkpointAt {
	at := checkpointAt{o.Metadata.Name, o.Metadata.ResourceVersion, len(o.Metadata.Annotations) > 0}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[o.key()] = at
	return at
}

func (c *Checkpoints) at(key Key) (checkpointAt, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.known[key]
	return at, ok
}

// retain removes the records of checkpoints that do not exist any more, for example of a deleted namespace.
func (c *Checkpoints) retain(exist map[Key]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.known, func(key Key, _ checkpointAt) bool { return !exist[key] })
}

func (c *Checkpoints) forget(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, key)
}

// longestName is the maximum length of a name in the API server.
const longestName = 253

// checkpointName returns the name that upstream gives a checkpoint.
func checkpointName(key Key) string {
	name := key.Autoscaler.Name + "-" + key.Container
	if len(name) > longestName {
		return alternateName(key)
	}
	return name
}

// alternateName returns the name of a checkpoint if the usual name is in use or too long.
func alternateName(key Key) string {
	sum := sha256.Sum256([]byte(key.Autoscaler.Name + "/" + key.Container))
	suffix := "-" + hex.EncodeToString(sum[:5])
	name := key.Autoscaler.Name + "-" + key.Container
	name = strings.TrimRight(name[:min(len(name), longestName-len(suffix))], "-.")
	return name + suffix
}
