// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
)

// Checkpoints reads and writes VerticalPodAutoscalerCheckpoints. It is safe for several goroutines.
type Checkpoints struct {
	collection[Key, *checkpointObject, checkpointAt]
}

// A checkpointAt is what is known about a stored checkpoint.
type checkpointAt struct {
	storedAt
	annotated bool // it has annotations, possibly not from podfit
}

// NewCheckpoints returns a client of the checkpoints that the options select.
func NewCheckpoints(c *kube.Clients, o StorageOptions) *Checkpoints {
	o = o.withLog()
	return &Checkpoints{collection[Key, *checkpointObject, checkpointAt]{
		options: o, client: c.Autoscalers, resource: v1.GroupVersion().WithResource(v1.ResourceCheckpoints),
		singular: "checkpoint", plural: "checkpoints", most: checkpointTooLarge,
		empty: func() *checkpointObject { return new(checkpointObject) }, name: checkpointName, otherName: alternateName,
		skip: func(item *checkpointObject, _ bool, err error) {
			o.Log.Warn("Skipped a checkpoint that cannot be decoded",
				slog.Any("error", fmt.Errorf("decode checkpoint %s/%s: %w", item.Metadata.Namespace, item.Metadata.Name, err)))
		},
	}}
}

// Load lists all checkpoints and returns them by key. A checkpoint that cannot be decoded is logged and skipped.
func (c *Checkpoints) Load(ctx context.Context) (map[Key]usage.Checkpoint, error) {
	all := make(map[Key]usage.Checkpoint)
	err := c.load(ctx, func(o *checkpointObject, key Key) {
		c.learn(key, o.at())
		p, err := o.checkpoint()
		if err != nil {
			c.options.Log.Warn("Skipped a checkpoint that cannot be decoded", slog.Any("error", err))
			return
		}
		all[key] = p
	}, func(*checkpointObject) {})
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
		err := c.replace(ctx, key, at, p)
		switch {
		case apierrors.IsNotFound(err):
			c.forget(key)
		case apierrors.IsConflict(err):
			_, readErr := c.refresh(ctx, key, at.name)
			if errors.Is(readErr, errForeign) {
				readErr = nil
			}
			return errors.Join(err, readErr)
		default:
			return err
		}
	}
	for _, name := range c.names(key) {
		err := c.create(ctx, key, name, p)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		at, err := c.refresh(ctx, key, name)
		if err == nil {
			return c.replace(ctx, key, at, p)
		}
		if !errors.Is(err, errForeign) {
			return err
		}
	}
	return errors.New("both names are in use by checkpoints of other containers")
}

func (c *Checkpoints) create(ctx context.Context, key Key, name string, p *usage.Checkpoint) error {
	return c.written(c.post(ctx, key.Autoscaler.Namespace, &v1.VerticalPodAutoscalerCheckpoint{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion().String(), Kind: "VerticalPodAutoscalerCheckpoint"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Autoscaler.Namespace, Name: name, Annotations: checkpointAnnotations(p)},
		Spec:       v1.VerticalPodAutoscalerCheckpointSpec{VPAObjectName: key.Autoscaler.Name, ContainerName: key.Container},
		Status:     checkpointStatus(p),
	}))
}

// replace replaces the status of a checkpoint, if it still has the known version.
func (c *Checkpoints) replace(ctx context.Context, key Key, at checkpointAt, p *usage.Checkpoint) error {
	var ops []kube.PatchOp
	annotations := checkpointAnnotations(p)
	if at.annotated {
		for _, name := range slices.Sorted(maps.Keys(annotations)) {
			ops = append(ops, kube.PatchOp{Op: "add", Path: kube.AnnotationPath(name), Value: annotations[name]})
		}
	} else if len(annotations) > 0 {
		ops = append(ops, kube.PatchOp{Op: "add", Path: "/metadata/annotations", Value: annotations})
	}
	return c.written(c.patch(ctx, key.Autoscaler.Namespace, at.storedAt, checkpointStatus(p), ops...))
}

// written records the version of a checkpoint in the response to a write.
func (c *Checkpoints) written(o *checkpointObject, err error) error {
	if err != nil {
		return err
	}
	key, _ := o.key()
	c.learn(key, o.at())
	return nil
}

// refresh reads the version of the checkpoint with a name. The error is errForeign if it has another key.
func (c *Checkpoints) refresh(ctx context.Context, key Key, name string) (checkpointAt, error) {
	o, err := c.read(ctx, key, key.Autoscaler.Namespace, name)
	if err != nil {
		return checkpointAt{}, err
	}
	c.learn(key, o.at())
	return o.at(), nil
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
	orphans, err := c.orphans(ctx, unused.Has)
	return c.collect(ctx, orphans, err)
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
