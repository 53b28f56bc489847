// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/binary"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// A form is how a client wants to receive objects.
type form struct {
	protobuf bool
	partial  bool // only the metadata
}

// formOf returns the first form of the Accept header that the server has for a kind.
func formOf(r *http.Request, k *Kind) (form, bool) {
	accept := r.Header.Get("Accept")
	if accept == "" {
		return form{}, true
	}
	for part := range strings.SplitSeq(accept, ",") {
		media, parameters, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			continue
		}
		as := parameters["as"]
		partial := as == "PartialObjectMetadata" || as == "PartialObjectMetadataList"
		if as != "" && !partial {
			continue
		}
		switch media {
		case runtime.ContentTypeProtobuf:
			if partial || k.New != nil {
				return form{protobuf: true, partial: partial}, true
			}
		case runtime.ContentTypeJSON, "application/*", "*/*":
			return form{partial: partial}, true
		}
	}
	return form{}, false
}

func (f form) contentType(stream bool) string {
	out := runtime.ContentTypeJSON
	if f.protobuf {
		out = runtime.ContentTypeProtobuf
		if stream {
			out += ";stream=watch"
		}
	}
	return out
}

// The wire types and the fields of the messages that the server assembles from encoded objects.
const (
	lengthDelimited = 2

	unknownTypeMeta, unknownRaw = 1, 2 // runtime.Unknown
	typeVersion, typeKind       = 1, 2 // runtime.TypeMeta
	listMeta, listItems         = 1, 2 // all lists
	watchType, watchObject      = 1, 2 // metav1.WatchEvent
	rawExtensionRaw             = 1    // runtime.RawExtension
)

// magic begins an object in protobuf.
var magic = []byte("k8s\x00")

func appendField(b []byte, number int, value []byte) []byte {
	b = binary.AppendUvarint(b, uint64(number<<3|lengthDelimited))
	b = binary.AppendUvarint(b, uint64(len(value)))
	return append(b, value...)
}

// firstField returns the first field of a message, which contains the metadata of an object.
func firstField(message []byte) []byte {
	tag, n := binary.Uvarint(message)
	if tag != 1<<3|lengthDelimited {
		return nil
	}
	size, m := binary.Uvarint(message[n:])
	return message[n+m : n+m+int(size)]
}

// envelope wraps a message in a runtime.Unknown, as objects in protobuf are sent.
func envelope(apiVersion, kind string, message []byte) []byte {
	meta := appendField(appendField(nil, typeVersion, []byte(apiVersion)), typeKind, []byte(kind))
	out := make([]byte, 0, len(message)+len(meta)+24)
	out = append(out, magic...)
	out = appendField(out, unknownTypeMeta, meta)
	return appendField(out, unknownRaw, message)
}

// object encodes one object.
func (f form) object(o *Object) []byte {
	switch {
	case f.protobuf && f.partial:
		return envelope("meta.k8s.io/v1", "PartialObjectMetadata", appendField(nil, 1, o.meta))
	case f.protobuf:
		return envelope(o.Kind.APIVersion(), o.Kind.Name, o.raw)
	case f.partial:
		return []byte(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":` + string(o.metaJSON()) + `}`)
	}
	return o.JSON()
}

func (o *Object) metaJSON() []byte {
	var m metav1.ObjectMeta
	if err := m.Unmarshal(o.meta); err != nil {
		panic(err) // the server encoded it
	}
	b, _ := json.Marshal(&m) // it was decoded
	return b
}

// list encodes a page.
func (f form) list(k *Kind, objects []*Object, meta metav1.ListMeta) []byte {
	apiVersion, kind := k.APIVersion(), k.Name+"List"
	if f.partial {
		apiVersion, kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	if f.protobuf {
		m, _ := meta.Marshal() // always nil
		size := 64
		for _, o := range objects {
			size += len(o.raw) + 16
		}
		message := appendField(make([]byte, 0, size), listMeta, m)
		for _, o := range objects {
			item := o.raw
			if f.partial {
				item = appendField(nil, 1, o.meta)
			}
			message = appendField(message, listItems, item)
		}
		return envelope(apiVersion, kind, message)
	}
	m, _ := json.Marshal(meta) // always nil
	var b []byte
	b = append(b, `{"kind":"`+kind+`","apiVersion":"`+apiVersion+`","metadata":`...)
	b = append(b, m...)
	b = append(b, `,"items":[`...)
	for i, o := range objects {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, f.object(o)...)
	}
	return append(b, "]}"...)
}

// frame encodes an event of a watch.
func (f form) frame(kind watch.EventType, object []byte) []byte {
	if !f.protobuf {
		b := make([]byte, 0, len(object)+48)
		b = append(b, `{"type":"`+string(kind)+`","object":`...)
		b = append(b, object...)
		return append(b, "}\n"...)
	}
	extension := appendField(make([]byte, 0, len(object)+8), rawExtensionRaw, object)
	message := appendField(make([]byte, 4, len(extension)+40), watchType, []byte(kind))
	message = appendField(message, watchObject, extension)
	binary.BigEndian.PutUint32(message, uint32(len(message)-4))
	return message
}

// bookmark encodes the object of a bookmark.
func (f form) bookmark(k *Kind, version int64, initial bool) []byte {
	meta := metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(version, 10)}
	if initial {
		meta.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	apiVersion, kind := k.APIVersion(), k.Name
	if f.partial {
		apiVersion, kind = "meta.k8s.io/v1", "PartialObjectMetadata"
	}
	if f.protobuf {
		m, _ := meta.Marshal() // always nil
		return envelope(apiVersion, kind, appendField(nil, 1, m))
	}
	m, _ := json.Marshal(&meta) // always nil
	return []byte(`{"kind":"` + kind + `","apiVersion":"` + apiVersion + `","metadata":` + string(m) + `}`)
}

// status encodes a Status.
func (f form) status(s *metav1.Status) []byte {
	s.TypeMeta = metav1.TypeMeta{}
	if f.protobuf {
		m, _ := s.Marshal() // always nil
		return envelope("v1", "Status", m)
	}
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	b, _ := json.Marshal(s) // always nil
	return b
}
