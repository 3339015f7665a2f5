"""The examples that the help of each command prints."""

EXAMPLES = {
    "doctor": """\
  gluonops doctor                                 versions, backends, GPUs, and what is missing
  gluonops doctor --json | jq .backends""",
    "install-mxnet": """\
  gluonops install-mxnet                          MXNet for the CPU
  gluonops install-mxnet cu117                    for NVIDIA GPUs, with the CUDA libraries
  gluonops install-mxnet -o wheels                the wheel alone, to install it elsewhere""",
    "ops": """\
  gluonops ops                                    the table of all operators
  gluonops ops reorg                              one of them""",
    "files": """\
  gluonops files list net                         what is in net-symbol.json and net-0000.params
  gluonops files check model.tar.gz               whether it is whole and fits together
  gluonops files convert net net.safetensors      the arrays, for other programs
  gluonops files convert train.rec pictures       a file for each record, and their labels""",
    "train": """\
  gluonops train                                  an example with digits; it takes two minutes
  gluonops train photographs                      a detector or a classifier, as the folder says
  gluonops train VOCdevkit --model yolov2 --size 416 --flip 0.5 --epochs 100
  gluonops train obj.data --cfg yolov4-tiny.cfg --weights yolov4-tiny.weights --layers 29
  gluonops train photographs --resume             continues after Ctrl-C""",
    "val": """\
  gluonops val out/finetune_detector/detector photographs
  gluonops val classifier.onnx photographs --json
  gluonops val yolov2-voc.cfg yolov2-voc.weights VOCdevkit --names voc.names""",
    "completion": """\
  gluonops completion >> ~/.bashrc
  gluonops completion >> ~/.zshrc""",
    "convert": """\
  gluonops convert yolov2.cfg yolov2.weights out/yolov2
  gluonops convert yolov2.cfg yolov2.weights out/yolov2 --detections --threshold 0.5
  gluonops convert yolov4.cfg yolov4.weights out/yolov4 --detections --letterbox""",
    "detect": """\
  gluonops detect out/detector street.jpg -o found.png        runs out/detector-symbol.json
  gluonops detect detector.onnx a.jpg b.jpg -o found --json found.json
  gluonops detect yolov2.cfg yolov2.weights dog.jpg --names coco.names -o found.png
  gluonops detect out/detector photographs -o found           takes all images in the folder""",
    "classify": """\
  gluonops classify out/classifier cat.jpg                    runs out/classifier-symbol.json
  gluonops classify classifier.onnx a.jpg b.jpg --top 1 --json -
  gluonops classify darknet19.cfg darknet19.weights dog.jpg --names imagenet.names""",
    "anchors": """\
  gluonops anchors                                for the scenes of digits
  gluonops anchors VOCdevkit/VOC2007 -k 9 -o anchors.png""",
    "export": """\
  gluonops export net deploy                      nodes of gluonops become MXNet's own operators
  gluonops export old-symbol.json --out new       files of any version, as MXNet 1.9.1 writes them
  gluonops export net deploy --fold-batch-norm    the same, with folded batch norms
  gluonops export net fast --backend native       nodes of the C++ library
  gluonops export trained deploy --inference      without losses and labels
  gluonops export net --onnx net.onnx             ONNX, for any batch size
  gluonops export net small --int8 --calibrate photos   8-bit layers, for MXNet on the CPU
  gluonops export net --onnx small.onnx --int8 --calibrate photos --limit 0.05""",
    "import": """\
  gluonops import port trained.pt --into home/net      a file of torch.save(net.state_dict(), ...)
  gluonops import port last.ckpt --into home/net       a checkpoint with a state_dict in it
  gluonops import port trained.safetensors --into home/net --backend native""",
    "viz": """\
  gluonops viz deploy -o deploy.svg               the net of deploy-symbol.json
  gluonops viz deploy -o deploy.png --data-shape 1,3,416,416
  gluonops viz pair -o pair.png --data-shape left=1,3,32,32 --data-shape right=1,9""",
    "bench": """\
  gluonops bench                                  every operator, in about half a minute
  gluonops bench --op reorg --shape 1,64,26,26    one of them, on data of this shape
  gluonops bench --json > here.json""",
}
