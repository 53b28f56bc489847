// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/json"
	"fmt"
	"time"
)

// json reads a PodMetricsList in JSON. An item that is not as it should be is passed over.
func (r *reading) json(raw []byte) error {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	for _, item := range list.Items {
		var p struct {
			Metadata   struct{ Namespace, Name string } `json:"metadata"`
			Timestamp  time.Time                        `json:"timestamp"`
			Containers []struct {
				Name  string `json:"name"`
				Usage struct {
					CPU    *text `json:"cpu"`
					Memory *text `json:"memory"`
				} `json:"usage"`
			} `json:"containers"`
		}
		if json.Unmarshal(item, &p) != nil {
			r.unreadable++
			continue
		}
		var podName string
		for i := range p.Containers {
			c := &p.Containers[i]
			r.add([]byte(p.Metadata.Namespace), []byte(p.Metadata.Name), &podName, p.Timestamp.UTC(),
				container{name: []byte(c.Name), cpu: c.Usage.CPU.bytes(), memory: c.Usage.Memory.bytes()})
		}
	}
	return nil
}

// A text is a quantity, which JSON may write as a string or a number.
type text []byte

// UnmarshalJSON takes a string or a number as it is written.
func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err == nil {
		*t = text(s)
		return nil
	}
	*t = append((*t)[:0], b...)
	return nil
}

func (t *text) bytes() []byte {
	if t == nil {
		return nil
	}
	if *t == nil {
		return []byte{}
	}
	return *t
}
