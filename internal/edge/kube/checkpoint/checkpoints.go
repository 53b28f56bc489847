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
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
)

// Checkpoints reads and writes VerticalPodAutoscalerCheckpoints. Of those it has seen it remembers the name and version,
// not the content. It is safe for several goroutines.
type Checkpoints struct {
	client    rest.Interface
	namespace string
	ignored   []string
	log       *slog.Logger

	mu    sync.Mutex
	known map[CheckpointKey]checkpointAt
}

// checkpointAt is where and in which version a checkpoint is stored.
type checkpointAt struct {
	name, version string
	annotated     bool // it has annotations, of whomever
}

// StorageOptions say which objects are read and stored.
type StorageOptions struct {
	Namespace string   // only objects of this namespace; "" means all
	Ignored   []string // no objects of these namespaces
	Log       *slog.Logger
}

// NewCheckpoints returns the checkpoints of the namespaces that the options name.
func NewCheckpoints(c *kube.Clients, o StorageOptions) *Checkpoints {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Checkpoints{
		client:    c.Autoscalers,
		namespace: o.Namespace,
		ignored:   o.Ignored,
		log:       o.Log,
		known:     make(map[CheckpointKey]checkpointAt),
	}
}

// Load reads all checkpoints and calls each once for each key. One that cannot be read is logged and left out.
func (c *Checkpoints) Load(ctx context.Context, each func(CheckpointKey, usage.Checkpoint)) error {
	var strays []checkpointObject // under a name that is not the first choice; they give way to one that is
	taken := make(map[CheckpointKey]bool)
	take := func(o *checkpointObject) {
		c.learn(o)
		taken[o.key()] = true
		p, err := o.checkpoint()
		if err != nil {
			c.log.Warn("checkpoint cannot be read", "error", err)
			return
		}
		each(o.key(), p)
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
	return err
}

// Write stores a checkpoint, and creates its object if there is none. On ErrConflict somebody else has written it since
// we did; what they wrote is overwritten the next time.
func (c *Checkpoints) Write(ctx context.Context, key CheckpointKey, p usage.Checkpoint) error {
	err := c.write(ctx, key, &p)
	if err != nil {
		return fmt.Errorf("write checkpoint of %s, container %s: %w", key.Autoscaler, key.Container, kube.Refused(err))
	}
	return nil
}

func (c *Checkpoints) write(ctx context.Context, key CheckpointKey, p *usage.Checkpoint) error {
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
	return errors.New("both names are taken by checkpoints of other containers")
}

func (c *Checkpoints) create(ctx context.Context, key CheckpointKey, name string, p *usage.Checkpoint) error {
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

// patch replaces the status of a checkpoint as it was last seen.
func (c *Checkpoints) patch(ctx context.Context, key CheckpointKey, at checkpointAt, p *usage.Checkpoint) error {
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

// answer remembers the version that the API server says a checkpoint now has.
func (c *Checkpoints) answer(raw []byte, err error) error {
	if err != nil {
		return err
	}
	var o checkpointObject
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	c.learn(&o)
	return nil
}

// read looks at the checkpoint of a name. If it is of the key it is remembered; else what is returned has no name.
func (c *Checkpoints) read(ctx context.Context, key CheckpointKey, name string) (checkpointAt, error) {
	raw, err := kube.Body(c.client.Get().Namespace(key.Autoscaler.Namespace).Resource(v1.ResourceCheckpoints).Name(name).Do(ctx))
	if err != nil {
		return checkpointAt{}, err
	}
	var o checkpointObject
	if err := json.Unmarshal(raw, &o); err != nil {
		return checkpointAt{}, fmt.Errorf("decode checkpoint %s: %w", name, err)
	}
	if o.key() != key {
		return checkpointAt{}, nil
	}
	return c.learn(&o), nil
}

// Collect deletes the checkpoints that keep does not want, and returns how many it deleted. Ask it with the autoscalers
// of all recommenders in mind: a checkpoint whose autoscaler is somebody else's is not an orphan. A checkpoint that has
// been written since it was listed stays.
func (c *Checkpoints) Collect(ctx context.Context, keep func(CheckpointKey) bool) (int, error) {
	var orphans []checkpointObject
	listed := make(map[CheckpointKey]bool)
	err := c.list(ctx, func(o *checkpointObject) {
		o.Status = nil
		listed[o.key()] = true
		at, ok := c.at(o.key())
		stray := ok && at.name != o.Metadata.Name && o.Metadata.Name != checkpointName(o.key())
		if stray || !keep(o.key()) {
			orphans = append(orphans, *o)
		}
	})
	if err == nil {
		c.retain(listed)
	}
	errs := kube.FewErrors{All: []error{err}}
	deleted := 0
	for i := range orphans {
		switch err := c.delete(ctx, &orphans[i]); {
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

func (c *Checkpoints) delete(ctx context.Context, o *checkpointObject) error {
	uid, version := o.Metadata.UID, o.Metadata.ResourceVersion
	err := c.client.Delete().Namespace(o.Metadata.Namespace).Resource(v1.ResourceCheckpoints).Name(o.Metadata.Name).
		Body(&metav1.DeleteOptions{
			TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
			Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		}).Do(ctx).Error()
	if err == nil || apierrors.IsNotFound(err) {
		if at, ok := c.at(o.key()); ok && at.name == o.Metadata.Name {
			c.forget(o.key())
		}
	}
	return err
}

// Delete deletes one checkpoint, if it is known.
func (c *Checkpoints) Delete(ctx context.Context, key CheckpointKey) error {
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

// list calls each for every checkpoint of the namespaces in question, page by page.
func (c *Checkpoints) list(ctx context.Context, each func(*checkpointObject)) error {
	o := metav1.ListOptions{Limit: kube.PageSize}
	for {
		raw, err := readPage(ctx, c.client.Get().Namespace(c.namespace).Resource(v1.ResourceCheckpoints).
			VersionedParams(&o, kube.ListParameters))
		if err != nil {
			return fmt.Errorf("list checkpoints: %w", kube.Refused(err))
		}
		var page struct {
			Metadata metav1.ListMeta    `json:"metadata"`
			Items    []checkpointObject `json:"items"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return fmt.Errorf("decode list of checkpoints: %w", err)
		}
		for i := range page.Items {
			if !slices.Contains(c.ignored, page.Items[i].Metadata.Namespace) {
				each(&page.Items[i])
			}
		}
		if o.Continue = page.Metadata.Continue; o.Continue == "" {
			return nil
		}
	}
}

// pageTimeout bounds the reading of one page of a list: an API server that does not answer must not hold who reads for ever.
const pageTimeout = time.Minute

// readPage sends a request for one page of a list.
func readPage(ctx context.Context, r *rest.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return kube.Body(r.Do(ctx))
}

func (c *Checkpoints) learn(o *checkpointObject) checkpointAt {
	at := checkpointAt{o.Metadata.Name, o.Metadata.ResourceVersion, len(o.Metadata.Annotations) > 0}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[o.key()] = at
	return at
}

func (c *Checkpoints) at(key CheckpointKey) (checkpointAt, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.known[key]
	return at, ok
}

// retain forgets all but those that exist: a namespace that is deleted takes its checkpoints with it.
func (c *Checkpoints) retain(exist map[CheckpointKey]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.known, func(key CheckpointKey, _ checkpointAt) bool { return !exist[key] })
}

func (c *Checkpoints) forget(key CheckpointKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, key)
}

// longestName is what the API server allows.
const longestName = 253

// checkpointName is the name upstream gives a checkpoint.
func checkpointName(key CheckpointKey) string {
	name := key.Autoscaler.Name + "-" + key.Container
	if len(name) > longestName {
		return alternateName(key)
	}
	return name
}

// alternateName is the name of a checkpoint when the first is taken, or too long.
func alternateName(key CheckpointKey) string {
	sum := sha256.Sum256([]byte(key.Autoscaler.Name + "/" + key.Container))
	suffix := "-" + hex.EncodeToString(sum[:5])
	name := key.Autoscaler.Name + "-" + key.Container
	name = strings.TrimRight(name[:min(len(name), longestName-len(suffix))], "-.")
	return name + suffix
}
