// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// protobufMagic is the prefix of Kubernetes' protobuf encoding.
var protobufMagic = []byte("k8s\x00")

// Numbers of the fields that are read, by message. The messages are in k8s.io/metrics and k8s.io/apimachinery.
const (
	unknownRaw = 2 // runtime.Unknown: the object itself

	listItems = 2 // PodMetricsList

	podMetadata   = 1 // PodMetrics
	podTimestamp  = 2
	podContainers = 4

	metaName      = 1 // ObjectMeta
	metaNamespace = 3

	containerName  = 1 // ContainerMetrics
	containerUsage = 2 // one map entry per resource

	entryKey   = 1
	entryValue = 2

	quantityString = 1 // Quantity
)

// envelope decodes a runtime.Unknown that contains a PodMetricsList.
func (r *reading) envelope(b []byte) error {
	return fields(b, func(n protowire.Number, v []byte) error {
		if n != unknownRaw {
			return nil
		}
		return fields(v, func(n protowire.Number, v []byte) error {
			if n != listItems {
				return nil
			}
			return r.pod(v)
		})
	})
}

func (r *reading) pod(b []byte) error {
	of, err := parse(b)
	metadata, metadataErr := parse(of[podMetadata])
	var at metav1.Timestamp
	if err := cmp.Or(err, metadataErr, at.Unmarshal(of[podTimestamp])); err != nil {
		return err
	}
	var podName string
	var measured time.Time // zero if it is not known
	if at != (metav1.Timestamp{}) {
		measured = time.Unix(at.Seconds, int64(at.Nanos)).UTC()
	}
	// The names and the time may come after the containers, so this decodes the message a second time.
	return fields(b, func(n protowire.Number, v []byte) error {
		if n != podContainers {
			return nil
		}
		c, err := protobufContainer(v)
		if err == nil {
			r.add(metadata[metaNamespace], metadata[metaName], &podName, measured, c)
		}
		return err
	})
}

func protobufContainer(b []byte) (c container, err error) {
	err = fields(b, func(n protowire.Number, v []byte) error {
		switch n {
		case containerName:
			c.name = v
		case containerUsage:
			return c.usage(v)
		}
		return nil
	})
	return c, err
}

func (c *container) usage(b []byte) error {
	entry, err := parse(b)
	quantity, quantityErr := parse(entry[entryValue])
	value := quantity[quantityString]
	if value == nil && entry[entryValue] != nil {
		value = []byte{} // it is there, and cannot be parsed
	}
	switch string(entry[entryKey]) {
	case "cpu":
		c.cpu = value
	case "memory":
		c.memory = value
	}
	return cmp.Or(err, quantityErr)
}

// A message contains the fields that have a length, by number. A field that is missing is nil.
type message [podContainers + 1][]byte

// parse returns the fields of a message, and the last value of a repeated field.
func parse(b []byte) (m message, err error) {
	err = fields(b, func(n protowire.Number, v []byte) error {
		if int(n) < len(m) {
			m[n] = v
		}
		return nil
	})
	return m, err
}

// fields calls each for every field of a message that has a length. It skips fields of other types.
func fields(b []byte, each func(n protowire.Number, value []byte) error) error {
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return fmt.Errorf("decode field: %w", protowire.ParseError(size))
		}
		b = b[size:]
		size = protowire.ConsumeFieldValue(n, typ, b)
		if size < 0 {
			return fmt.Errorf("decode field %d: %w", n, protowire.ParseError(size))
		}
		if typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b) // it has the size that was found
			if err := each(n, value); err != nil {
				return err
			}
		}
		b = b[size:]
	}
	return nil
}
