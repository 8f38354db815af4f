# SPDX-License-Identifier: Apache-2.0
"""A kind's work as a user of TensorFlow writes it: a tf.data.Dataset, blurs by depthwise convolution (TensorFlow has no op for them)."""
import kinds
import tensorflow as tf

MEAN, STD = tf.constant((0.485, 0.456, 0.406)), tf.constant((0.229, 0.224, 0.225))


def blur(image):
    """[H, W, 3] float32 by a Gaussian of 11 x 11, one axis after the other, edges mirrored."""
    sigma = tf.random.uniform([], 0.1, 2.0)
    taps = tf.exp(-0.5 * tf.square(tf.range(-5.0, 6.0) / sigma))
    taps /= tf.reduce_sum(taps)
    image = tf.pad(image, [[5, 5], [5, 5], [0, 0]], "REFLECT")[None]
    for shape in ([11, 1, 1, 1], [1, 11, 1, 1]):
        image = tf.nn.depthwise_conv2d(image, tf.tile(tf.reshape(taps, shape), [1, 1, 3, 1]), [1, 1, 1, 1], "VALID")
    return image[0]


def dataset(kind: kinds.Kind, threads: int):
    """Endless, in batches."""
    images, labels = kinds.pictures(kind)

    def sample(image, label):
        image = tf.cast(image, tf.float32)
        if kind.dilate:
            image = tf.nn.max_pool2d(image[None], 3, 1, "SAME")[0]
        for _ in range(kind.blurs):
            image = blur(image)
        if kind.flip:
            image = tf.image.random_flip_left_right(image)
        return (image / 255.0 - MEAN) / STD, label

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = 1
    options.deterministic = False
    made = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().shuffle(1024)
    return made.map(sample, num_parallel_calls=threads).batch(kind.batch, drop_remainder=True).prefetch(2).with_options(options)
