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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
)

// Checkpoints reads and writes VerticalPodAutoscalerCheckpoints. It is safe for several goroutines.
type Checkpoints struct {
	collection[Key, *checkpointObject]
}

// NewCheckpoints returns a client of the checkpoints that the options select.
func NewCheckpoints(c *kube.Clients, o StorageOptions) *Checkpoints {
	o = o.withLog()
	return &Checkpoints{collection[Key, *checkpointObject]{
		options: o, client: c.Autoscalers, resource: v1.GroupVersion().WithResource(v1.ResourceCheckpoints),
		singular: "checkpoint", plural: "checkpoints", others: "checkpoints of other containers", most: checkpointTooLarge,
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
	err := c.store(ctx, key, checkpointWriter{c, key, &p})
	if err != nil {
		return fmt.Errorf("write checkpoint of %s, container %s: %w", key.Autoscaler, key.Container, kube.Refused(err))
	}
	return nil
}

// A checkpointWriter stores a checkpoint.
type checkpointWriter struct {
	*Checkpoints
	key     Key
	content *usage.Checkpoint
}

func (w checkpointWriter) create(ctx context.Context, name string) error {
	return w.written(w.post(ctx, w.key.Autoscaler.Namespace, &v1.VerticalPodAutoscalerCheckpoint{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion().String(), Kind: "VerticalPodAutoscalerCheckpoint"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Autoscaler.Namespace, Name: name, Annotations: checkpointAnnotations(w.content)},
		Spec:       v1.VerticalPodAutoscalerCheckpointSpec{VPAObjectName: w.key.Autoscaler.Name, ContainerName: w.key.Container},
		Status:     checkpointStatus(w.content),
	}))
}

func (w checkpointWriter) replace(ctx context.Context, at storedAt) error {
	var ops []kube.PatchOp
	annotations := checkpointAnnotations(w.content)
	if at.annotated {
		for _, name := range slices.Sorted(maps.Keys(annotations)) {
			ops = append(ops, kube.PatchOp{Op: "add", Path: kube.AnnotationPath(name), Value: annotations[name]})
		}
	} else if len(annotations) > 0 {
		ops = append(ops, kube.PatchOp{Op: "add", Path: "/metadata/annotations", Value: annotations})
	}
	return w.written(w.patch(ctx, w.key.Autoscaler.Namespace, at, checkpointStatus(w.content), ops...))
}

// overwrite replaces a checkpoint that another client has created. After a conflict, only the next Write does.
func (w checkpointWriter) overwrite(ctx context.Context, name string, conflict error) error {
	at, err := w.refresh(ctx, w.key, w.key.Autoscaler.Namespace, name)
	if conflict != nil && errors.Is(err, errForeign) {
		err = nil
	}
	if conflict != nil || err != nil {
		return errors.Join(conflict, err)
	}
	return w.replace(ctx, at)
}

// written records the version of a checkpoint in the response to a write.
func (w checkpointWriter) written(o *checkpointObject, err error) error {
	if err == nil {
		w.learn(w.key, o.at())
	}
	return err
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
	return withHash(key.Autoscaler.Name+"-"+key.Container, key.Autoscaler.Name+"/"+key.Container)
}

// withHash returns a name with a hash of what it is the name of, shortened if necessary.
func withHash(name, of string) string {
	sum := sha256.Sum256([]byte(of))
	suffix := "-" + hex.EncodeToString(sum[:5])
	return strings.TrimRight(name[:min(len(name), longestName-len(suffix))], "-.") + suffix
}
