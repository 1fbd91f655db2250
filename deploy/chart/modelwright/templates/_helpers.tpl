{{- define "modelwright.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "modelwright.operator" -}}
{{ include "modelwright.fullname" . }}-operator
{{- end -}}

{{- define "modelwright.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "modelwright.operator" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "modelwright.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* An image beside the operator's: the same repository with another last part, and the same tag. */}}
{{- define "modelwright.imageBeside" -}}
{{- $folder := dir .root.Values.image.repository -}}
{{- if ne $folder "." }}{{ $folder }}/{{ end }}{{ .name }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end -}}

{{- define "modelwright.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "modelwright.labels" -}}
{{ include "modelwright.selector" . }}
app.kubernetes.io/part-of: modelwright
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
