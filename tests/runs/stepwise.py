"""A toy encoder that works in two steps."""

import numpy as np

from tests.toys import Eye


class Ahead(Eye):
    """The eye, in two steps; it notes what is begun and what is waited for."""

    def __init__(self, name="eye", break_at=None):
        super().__init__(name)
        self.noted, self.count, self.break_at = [], 0, break_at

    def prepare_images(self, images):
        return [np.asarray(image) for image in images]

    def encode_prepared(self, prepared):
        raise AssertionError("it may begin")

    def begin_prepared(self, prepared):
        number, self.count = self.count, self.count + 1
        if number == self.break_at:
            raise RuntimeError("the device is lost")
        self.noted.append(("begun", number))

        def wait():
            self.noted.append(("waited for", number))
            return self.encode_images(prepared)

        return wait
