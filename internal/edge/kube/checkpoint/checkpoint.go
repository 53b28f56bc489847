// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package checkpoint stores usage histograms and model state in the API server and reads them back: histograms in
// VerticalPodAutoscalerCheckpoints, in upstream's format, and the model state of sizing profiles in UsageHistories. It also stores what
// the updater has recorded about its actions, in UpdateStates.
//
// It does not decide what is stored, or when.
package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/changelog"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/histogram"
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

// annotationWindow has the state for which the status of a checkpoint has no field.
const annotationWindow = "podfit.dev/window"

// annotationTarget names the workload of a checkpoint: its API group, kind and name, then a space and the lastUpdateTime of the
// status it belongs to. The spec names only the autoscaler, whose target may have changed since.
const annotationTarget = "podfit.dev/target"

// annotationChanges has the last changes of the recommendation of the container.
const annotationChanges = "podfit.dev/changes"

// annotationRuns has the last runs of the container, if it belongs to a Job or CronJob.
const annotationRuns = "podfit.dev/runs"

// annotationProfile names the SizingProfile that sized the VPA when podfit last wrote the checkpoint. It stays when another recommender
// writes the status.
const annotationProfile = "podfit.dev/served-by-profile"

// annotationNode has the smallest node by which a profile for full nodes sizes the workload.
const annotationNode = "podfit.dev/smallest-node"

// A Key identifies a checkpoint. The name of the object does not: autoscaler "a" with container "b-c" and autoscaler
// "a-b" with container "c" would have the same name.
type Key struct {
	Autoscaler cluster.Key
	Container  string
}

// A checkpointObject is a checkpoint whose key can be decoded even if its status cannot.
type checkpointObject struct {
	storedObject[v1.VerticalPodAutoscalerCheckpointSpec]
}

// checkpointTooLarge is the size of an object, in bytes of JSON, above which its status is ignored. Checkpoints of podfit and upstream are
// smaller: annotations have at most 256 KiB together, and the two histograms about 5 KiB.
const checkpointTooLarge = 640 << 10

func (o *checkpointObject) key() (Key, error) { //nolint:unparam // that of a UsageHistory may be invalid
	return Key{cluster.Key{Namespace: o.Metadata.Namespace, Name: o.Spec.VPAObjectName}, o.Spec.ContainerName}, nil
}

func (o *checkpointObject) at() storedAt {
	at := o.storedObject.at()
	at.annotated = len(o.Metadata.Annotations) > 0
	return at
}

func (o *checkpointObject) checkpoint() (usage.Checkpoint, error) {
	var s v1.VerticalPodAutoscalerCheckpointStatus
	if o.size > 0 {
		return usage.Checkpoint{}, fmt.Errorf("checkpoint %[1]s/%[2]s is too large: %[3]d bytes, and at most %[4]d are read. "+
			"Delete it: kubectl delete verticalpodautoscalercheckpoint -n %[1]s %[2]s", o.Metadata.Namespace, o.Metadata.Name, o.size, checkpointTooLarge)
	}
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &s); err != nil {
			return usage.Checkpoint{}, fmt.Errorf("decode checkpoint %s/%s: %w", o.Metadata.Namespace, o.Metadata.Name, err)
		}
	}
	// An invalid annotation counts as absent.
	extra, err := base64.StdEncoding.DecodeString(o.Metadata.Annotations[annotationWindow])
	if err != nil {
		extra = nil
	}
	out := usage.Checkpoint{Profile: o.Metadata.Annotations[annotationProfile], Node: o.Metadata.Annotations[annotationNode], Extra: extra}
	if data, err := base64.StdEncoding.DecodeString(o.Metadata.Annotations[annotationChanges]); err == nil {
		out.Changes, _ = changelog.Decode(data)
	}
	if data, err := base64.StdEncoding.DecodeString(o.Metadata.Annotations[annotationRuns]); err == nil && len(data) > 0 {
		out.Runs = data
	}
	out.Updated = s.LastUpdateTime.UTC()
	out.Version = s.Version
	out.CPU = histogramOf(&s.CPUHistogram)
	out.Memory = histogramOf(&s.MemoryHistogram)
	out.FirstSample = s.FirstSampleStart.UTC()
	out.LastSample = s.LastSampleStart.UTC()
	out.Samples = s.TotalSamplesCount
	out.Workload = o.target(out.Updated)
	return out, nil
}

// target returns the workload of a checkpoint that was written at a time. It is zero if upstream has written the status, because upstream does not store the
// target.
func (o *checkpointObject) target(at time.Time) cluster.Workload {
	target, updated, _ := strings.Cut(o.Metadata.Annotations[annotationTarget], " ")
	parts := strings.SplitN(target, "/", 3)
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" || updated != targetTime(at) {
		return cluster.Workload{}
	}
	return cluster.Workload{Group: parts[0], Kind: parts[1], Namespace: o.Metadata.Namespace, Name: parts[2]}
}

func targetTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func checkpointAnnotations(c *usage.Checkpoint) map[string]string {
	encoded := base64.StdEncoding.EncodeToString
	as := map[string]string{
		annotationWindow: encoded(c.Extra), annotationChanges: encoded(c.Changes.Encode()), annotationRuns: encoded(c.Runs),
		annotationProfile: c.Profile, annotationNode: c.Node,
	}
	if w := c.Workload; !w.IsZero() {
		as[annotationTarget] = w.Group + "/" + w.Kind + "/" + w.Name + " " + targetTime(c.Updated)
	}
	maps.DeleteFunc(as, func(_, value string) bool { return value == "" })
	return as
}

func checkpointStatus(c *usage.Checkpoint) v1.VerticalPodAutoscalerCheckpointStatus {
	return v1.VerticalPodAutoscalerCheckpointStatus{
		LastUpdateTime: metav1.NewTime(c.Updated), Version: c.Version, CPUHistogram: storedHistogram(&c.CPU), MemoryHistogram: storedHistogram(&c.Memory),
		FirstSampleStart: metav1.NewTime(c.FirstSample), LastSampleStart: metav1.NewTime(c.LastSample), TotalSamplesCount: c.Samples,
	}
}

func histogramOf(h *v1.HistogramCheckpoint) histogram.Checkpoint {
	return histogram.Checkpoint{Reference: h.ReferenceTimestamp.UTC(), Weights: h.BucketWeights, Total: h.TotalWeight}
}

func storedHistogram(h *histogram.Checkpoint) v1.HistogramCheckpoint {
	return v1.HistogramCheckpoint{ReferenceTimestamp: metav1.NewTime(h.Reference), BucketWeights: h.Weights, TotalWeight: h.Total}
}
